// Device addresses, which tensors hold, and kernel addresses, at which the bytes
// can be reached; and what a pointer points into.
//
// Threads: any.
#pragma once

#include <cstddef>

namespace c10::openreg {

/// Where kernels find the bytes of a device address, and the way back: the
/// distance is the same for all device memory. nullptr stays nullptr; an address
/// that is nowhere near the device's memory is an error.
void* kernelAddress(const void* pointer);
void* deviceAddress(const void* kernelPointer);

/// Whose memory a device address lies in; throws if it is nobody's.
int deviceOfPointer(const void* pointer);

/// Whether a device address lies in memory that is allocated.
bool isDevicePointer(const void* pointer) noexcept;

/// Whether a pointer is into pinned or registered host memory.
bool isPinned(const void* pointer) noexcept;

/// Memory straight from a device; nullptr if it has not that much.
void* mallocOn(int device, size_t bytes);

} // namespace c10::openreg
