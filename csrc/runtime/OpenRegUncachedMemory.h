// Device memory that bypasses the pool: for torch.openreg.caching_allocator_enable(), and
// for allocators that a program brings.
//
// Threads: any may call anything, except plugAllocator().
#pragma once

#include <openreg.h>

#include <atomic>
#include <cstddef>
#include <vector>

#include <sys/types.h>

namespace c10::openreg {

namespace detail {
extern std::atomic<bool> caching;
}

/// Whether allocations go through the pool, as they do at first. What was
/// allocated either way is freed the way it came.
inline bool cachingEnabled() noexcept {
  return detail::caching.load(std::memory_order_relaxed);
}
void enableCaching(bool enabled) noexcept;

/// Functions of a program that do what orMalloc() and orFree() do.
struct PluggedAllocator {
  void* (*allocate)(ssize_t bytes, int device, orStream_t stream) = nullptr;
  void (*free)(void* pointer, ssize_t bytes, int device, orStream_t stream) =
      nullptr;
};

/// Lets all memory come from there, for good; to be called before any was
/// allocated.
void plugAllocator(const PluggedAllocator& allocator);
bool isPlugged() noexcept;

/// Memory straight from the device, or nullptr if it does not have that much.
void* allocateUncached(size_t nbytes, int device, orStream_t stream);

/// Gives it back, after waiting for the device; from inside a kernel, which may
/// not wait, with a later call. Returns false if the memory is not of this kind.
bool freeUncached(void* pointer);

/// How much memory of this kind a device has.
std::vector<const void*> uncachedOn(int device);

} // namespace c10::openreg
