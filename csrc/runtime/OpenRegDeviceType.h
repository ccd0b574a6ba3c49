// Which of PyTorch's device types the library serves: its own, or CUDA's.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/macros/Macros.h>

namespace c10::openreg {

// docs:begin device-type
/// PrivateUse1, the type for backends outside of PyTorch; or CUDA, if the library was
/// loaded with OPENREG_AS=cuda into a PyTorch that was built without it. Decided once.
DeviceType servedDeviceType();

/// The dispatch key to use for one of PrivateUse1: that of the same functionality, for
/// the type that is served.
DispatchKey servedKey(DispatchKey key);
// docs:end device-type

/// What messages call it: "OpenReg", or "CUDA".
const char* deviceTitle();

// Each library has constants of its own, which are set before what follows in a file.
C10_HIDDEN inline const DeviceType kDeviceType = servedDeviceType();
/// The key of plain tensors, and what they are made with.
C10_HIDDEN inline const DispatchKey kKey = servedKey(DispatchKey::PrivateUse1);
C10_HIDDEN inline const DispatchKeySet kKeySet{kKey};

inline bool isOpenReg(Device device) {
  return device.type() == kDeviceType;
}

} // namespace c10::openreg
