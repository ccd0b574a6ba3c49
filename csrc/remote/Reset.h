// A failed device, taken back into service.
#pragma once

#include <c10/core/Device.h>

namespace c10::openreg {

/// Calls orDeviceReset(). While this library is loaded, every reset, whoever calls it,
/// ends the device process, and the next kernel starts another. The contents of the
/// device's tensors are lost: they raise until they are overwritten.
///
/// Threads: any. Waits for what is running.
void reset_device(DeviceIndex device);

} // namespace c10::openreg
