// Memory whose contents went with its device, and who may touch it.
#pragma once

#include <atomic>
#include <vector>

namespace c10::openreg {

// docs:begin lost-memory
/// Marks the memory that was allocated on a device when it was reset as lost. It must not
/// be read until it is overwritten as a whole or freed.
///
/// Threads: any may call anything here.
void loseMemory(int device, const std::vector<const void*>& allocations);
// docs:end lost-memory

namespace detail {
extern std::atomic<bool> anyMemoryLost;
void throwIfLost(const void* pointer);
void forgetLost(const void* pointer);
} // namespace detail

/// Throws if the allocation that starts at `pointer` is lost.
inline void checkNotLost(const void* pointer) {
  if (detail::anyMemoryLost.load(std::memory_order_relaxed)) [[unlikely]] {
    detail::throwIfLost(pointer);
  }
}

/// The allocation that starts at `pointer` is about to be overwritten whole, or
/// freed.
inline void forgetLost(const void* pointer) {
  if (detail::anyMemoryLost.load(std::memory_order_relaxed)) [[unlikely]] {
    detail::forgetLost(pointer);
  }
}

} // namespace c10::openreg
