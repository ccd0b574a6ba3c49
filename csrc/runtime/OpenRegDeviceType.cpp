#include "runtime/OpenRegDeviceType.h"

#include <cstdlib>
#include <string_view>

namespace c10::openreg {

DeviceType servedDeviceType() {
  static const DeviceType type = [] {
    const char* name = std::getenv("OPENREG_AS");
    return name && std::string_view(name) == "cuda" ? DeviceType::CUDA
                                                    : DeviceType::PrivateUse1;
  }();
  return type;
}

const char* deviceTitle() {
  return servedDeviceType() == DeviceType::CUDA ? "CUDA" : "OpenReg";
}

DispatchKey servedKey(DispatchKey key) {
  return toRuntimePerBackendFunctionalityKey(
      toFunctionalityKey(key),
      servedDeviceType() == DeviceType::CUDA
          ? BackendComponent::CUDABit
          : BackendComponent::PrivateUse1Bit);
}

} // namespace c10::openreg
