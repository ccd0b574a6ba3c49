// Device memory around the pool, for torch.openreg.caching_allocator_enable().
#pragma once

#include <c10/core/Device.h>

#include <cstddef>

namespace c10::openreg {

/// Whether allocations go through the pool, as they do at first. What was
/// allocated either way is freed the way it came.
bool cachingEnabled() noexcept;
void enableCaching(bool enabled) noexcept;

/// Memory straight from the device, or nullptr if it has not that much.
void* allocateUncached(size_t nbytes, DeviceIndex device);

/// Gives it back, after waiting for the device; from inside a kernel, which may
/// not wait, with a later call. Returns false if the memory is not of this kind.
bool freeUncached(void* pointer);

} // namespace c10::openreg
