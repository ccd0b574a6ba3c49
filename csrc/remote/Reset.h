// A failed device, taken back into service.
#pragma once

#include <c10/core/Device.h>

namespace c10::openreg {

/// Drops the device's queued work and clears its error; a device process is ended,
/// and the next kernel starts another. Streams and events stay usable. What tensors
/// of the device held is lost: they raise until they are overwritten.
void reset_device(DeviceIndex device);

} // namespace c10::openreg
