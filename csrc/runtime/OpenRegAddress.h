// Device addresses, which tensors hold, and kernel addresses, at which the bytes
// can be reached.
#pragma once

#include <c10/core/Device.h>

namespace c10::openreg {

/// Where kernels find the bytes of a device address, and the way back: the
/// distance is the same for all device memory. nullptr stays nullptr; an address
/// that is nowhere near the device's memory is an error.
void* kernelAddress(const void* pointer);
void* deviceAddress(const void* kernelPointer);

/// Whose memory a device address lies in; throws if it is nobody's.
DeviceIndex deviceOfPointer(const void* pointer);

/// Whether an address lies in memory of an openreg device that is allocated.
bool isDevicePointer(const void* pointer) noexcept;

/// Notes that there is device memory at an address.
void noteAddresses(const void* pointer, size_t bytes);

} // namespace c10::openreg
