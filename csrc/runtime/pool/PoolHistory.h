// The last things that happened in the block pool.
#pragma once

#include "runtime/pool/Arenas.h"

#include <atomic>
#include <cstddef>
#include <vector>

namespace c10::openreg {

/// A ring of entries: when it is full, a new one takes the place of the oldest.
///
/// Threads: the pool's lock guards it, except shouldGather().
class PoolHistory {
 public:
  bool isOn() const {
    return isOn_;
  }

  /// Whether a context is wanted of calls of that kind.
  bool shouldGather(PoolRecord kind) const {
    return record_.load(std::memory_order_relaxed) >= kind;
  }

  /// Turns it on, with contexts from Alloc on, or off. Keeps the last `capacity`
  /// entries of those that are there, or none if it is cleared. Returns those that
  /// go, for the caller to destroy without the lock.
  std::vector<PoolTraceEntry> turn(
      bool on,
      PoolRecord record,
      size_t capacity,
      bool clear);

  /// Adds something that happened to memory of `home`, if it is on.
  void note(
      PoolTraceEntry::Action action,
      const void* address,
      size_t size,
      const FreeBlocks& home,
      const PoolContext& context) {
    if (isOn_) [[unlikely]] {
      add(action, address, size, home.stream, home.arena.id, context);
    }
  }
  void add(
      PoolTraceEntry::Action action,
      const void* address,
      size_t size,
      void* stream,
      PoolId pool,
      const PoolContext& context);

  /// Oldest first.
  std::vector<PoolTraceEntry> read() const;

 private:
  bool isOn_ = false;
  std::atomic<PoolRecord> record_{PoolRecord::Never};
  size_t capacity_ = 1;
  size_t oldest_ = 0;
  std::vector<PoolTraceEntry> entries_;
};

} // namespace c10::openreg
