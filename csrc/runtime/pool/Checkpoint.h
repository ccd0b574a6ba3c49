// The state of a private pool, to be brought back later.
#pragma once

#include "runtime/pool/Segments.h"

#include <optional>
#include <utility>
#include <vector>

namespace c10::openreg {

/// What bringing back a state changed, by the addresses of blocks.
struct PoolRestoration {
  std::vector<void*> freed; ///< were allocated before
  std::vector<void*> allocated; ///< are allocated now
};

// docs:begin pool-checkpoint
/// Which blocks of a private pool were allocated at some moment. Code that replays graphs
/// in another order than that of their captures restores the pool to the state that a
/// graph left behind, so that the next capture gets the memory it would have got then.
// docs:end pool-checkpoint
class PoolCheckpoint {
 public:
  /// Of a pool as Segments::describe() tells it.
  PoolCheckpoint(PoolId pool, std::vector<PoolSegmentInfo> segments)
      : pool_(pool), segments_(std::move(segments)) {}

  /// See BlockPool::restore().
  std::optional<PoolRestoration> restore(
      Segments& segments,
      PoolCounters& counters) const;

 private:
  bool fits(const Segments& segments) const;
  std::vector<PoolBlock*> cut(
      Segments& segments,
      const PoolSegmentInfo& segment) const;

  PoolId pool_;
  std::vector<PoolSegmentInfo> segments_; // by address
};

} // namespace c10::openreg
