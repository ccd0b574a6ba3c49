// Device memory around the pool: for torch.openreg.caching_allocator_enable(), and
// for allocators that a program brings.
#pragma once

#include "runtime/OpenRegStream.h"

#include <cstddef>
#include <vector>

namespace c10::openreg {

/// Whether allocations go through the pool, as they do at first. What was
/// allocated either way is freed the way it came.
bool cachingEnabled() noexcept;
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

/// Memory straight from the device, or nullptr if it has not that much.
void* allocateUncached(size_t nbytes, const OpenRegStream& stream);

/// Gives it back, after waiting for the device; from inside a kernel, which may
/// not wait, with a later call. Returns false if the memory is not of this kind.
bool freeUncached(void* pointer);

/// What a device has of this kind.
std::vector<const void*> uncachedOn(DeviceIndex device);

} // namespace c10::openreg
