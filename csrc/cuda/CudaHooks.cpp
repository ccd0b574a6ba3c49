#include "cuda/CudaHooks.h"

#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegGuard.h"

namespace c10::openreg {

void CudaHooks::deviceSynchronize(DeviceIndex device) const {
  OpenRegGuardImpl().synchronizeDevice(device);
}

Allocator* CudaHooks::getCUDADeviceAllocator() const {
  return &getOpenRegDeviceAllocator();
}

namespace {

// docs:begin register-cuda-hooks
// PyTorch makes its CUDA hooks when they are first used, which is during `import torch`:
// a library that is loaded later is not asked.
struct RegisterCudaHooks {
  RegisterCudaHooks() {
    if (kDeviceType == DeviceType::CUDA) {
      at::CUDAHooksRegistry()->Register(
          "CUDAHooks",
          [](at::CUDAHooksArgs) -> std::unique_ptr<at::CUDAHooksInterface> {
            return std::make_unique<CudaHooks>();
          });
    }
  }
} registerCudaHooks;
// docs:end register-cuda-hooks

} // namespace
} // namespace c10::openreg
