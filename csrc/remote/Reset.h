// A failed device, taken back into service.
#pragma once

#include <c10/core/Device.h>

namespace c10::openreg {

/// orDeviceReset() of a device. Wherever that is called, while this library is
/// loaded: a device process is ended, and the next kernel starts another; what
/// tensors of the device held is lost, and they raise until they are overwritten.
///
/// Threads: any. Waits for what is running.
void reset_device(DeviceIndex device);

} // namespace c10::openreg
