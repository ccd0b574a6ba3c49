// Which of PyTorch's device types the library serves: its own, or CUDA's.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>

#include <cstdlib>
#include <string_view>

namespace c10::openreg {

// docs:begin device-type
/// PrivateUse1, the type for backends from outside; or CUDA, if the library was loaded
/// with OPENREG_AS=cuda, into a PyTorch whose places for CUDA are empty. Decided once.
C10_EXPORT inline const DeviceType kDeviceType = [] {
  const char* name = std::getenv("OPENREG_AS");
  return name && std::string_view(name) == "cuda" ? DeviceType::CUDA
                                                  : kDeviceType;
}();

/// The dispatch key that stands for one of PrivateUse1: of the same functionality, for
/// the type that is served.
inline DispatchKey servedKey(DispatchKey key) {
  return toRuntimePerBackendFunctionalityKey(
      toFunctionalityKey(key),
      kDeviceType == DeviceType::CUDA ? BackendComponent::CUDABit
                                      : BackendComponent::PrivateUse1Bit);
}
// docs:end device-type

/// The key of plain tensors, and what they are made with.
C10_EXPORT inline const DispatchKey kKey = servedKey(DispatchKey::PrivateUse1);
C10_EXPORT inline const DispatchKeySet kKeySet{kKey};

inline bool isOpenReg(Device device) {
  return device.type() == kDeviceType;
}

} // namespace c10::openreg
