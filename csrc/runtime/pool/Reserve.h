// What the block pool has of the device's memory.
#pragma once

#include "runtime/pool/BlockDevice.h"
#include "runtime/pool/BlockSizes.h"
#include "runtime/pool/PoolCounters.h"
#include "runtime/pool/PoolHistory.h"
#include "runtime/pool/Segments.h"

#include <map>
#include <vector>

namespace c10::openreg {

/// Takes segments from the device, up to a limit, and keeps the books on them. The
/// pool's lock guards it, except unmap().
class Reserve {
 public:
  Reserve(
      BlockDevice& device,
      const BlockSizes& sizes,
      Segments& segments,
      PoolCounters& counters,
      PoolHistory& history)
      : device_(device),
        sizes_(sizes),
        segments_(segments),
        counters_(counters),
        history_(history) {}

  /// The most bytes at a time; SIZE_MAX: as many as the device has.
  size_t limit() const {
    return limit_;
  }
  void setLimit(size_t bytes) {
    limit_ = bytes;
  }

  size_t bytes() const {
    return static_cast<size_t>(counters_.reservedBytes.current());
  }
  ReservedByPool& byPool() {
    return byPool_;
  }

  /// A new segment for a block of `size`; nullptr if it would exceed the limit, or if
  /// the device does not have that much.
  PoolBlock* map(FreeBlocks& home, size_t size, const PoolContext& context);

  /// Takes out of the books those free parts of growing segments that can be given
  /// back. The caller then unmaps them, and forgets them.
  std::vector<PoolBlock*> shrink(
      const std::vector<PoolBlock*>& blocks,
      const PoolContext& context);
  void forgetUnits(const std::vector<PoolBlock*>& units);

  /// Takes an unused segment out of the books; it is then to be unmapped.
  void* forget(PoolBlock* segment, const PoolContext& context);

  /// Gives back memory that was forgotten or is Leaving. Waits for the device.
  void unmap(
      const std::vector<void*>& segments,
      const std::vector<PoolBlock*>& units = {});

 private:
  PoolBlock* grow(PoolBlock* block, size_t size, const PoolContext& context);
  PoolBlock* addRange(
      FreeBlocks& home,
      size_t size,
      const PoolContext& context);
  PoolBlock* fill(PoolBlock* block, size_t size, const PoolContext& context);
  void count(const PoolBlock* segment, int change);
  /// Gives back the addresses of a segment that has no memory left.
  void releaseIfEmpty(PoolBlock* block);
  void countBytes(FreeBlocks& home, int64_t bytes);

  BlockDevice& device_;
  const BlockSizes& sizes_;
  Segments& segments_;
  PoolCounters& counters_;
  PoolHistory& history_;
  size_t limit_ = SIZE_MAX;
  ReservedByPool byPool_;
};

} // namespace c10::openreg
