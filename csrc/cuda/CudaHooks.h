// What PyTorch asks CUDA outside of operators, where the device stands in for it.
#pragma once

#include "runtime/OpenRegHooks.h"

#include <ATen/detail/CUDAHooksInterface.h>

namespace c10::openreg {

/// CUDA's names for what OpenRegHooksInterface answers. What needs NVIDIA's libraries is
/// left to the base class, which throws or says that it is not there.
///
/// Threads: any may call anything; there is one for all.
struct CudaHooks final : at::CUDAHooksInterface {
  // --- presence ---
  bool isBuilt() const override {
    return true;
  }
  bool hasCUDA() const override {
    return true;
  }
  bool isAvailable() const override {
    return hooks_.isAvailable();
  }
  bool hasPrimaryContext(DeviceIndex device) const override {
    return hooks_.hasPrimaryContext(device);
  }
  void init() const override {
    hooks_.init();
  }
  std::string showConfig() const override {
    return "  - CUDA of torch_openreg: a device made of software\n";
  }

  // --- devices ---
  int getNumGPUs() const override {
    return hooks_.deviceCount();
  }
  DeviceIndex deviceCount() const override {
    return hooks_.deviceCount();
  }
  DeviceIndex current_device() const override {
    return hooks_.getCurrentDevice();
  }
  DeviceIndex getCurrentDevice() const override {
    return hooks_.getCurrentDevice();
  }
  void setCurrentDevice(DeviceIndex device) const override {
    hooks_.setCurrentDevice(device);
  }
  DeviceIndex exchangeDevice(DeviceIndex device) const override {
    return hooks_.exchangeDevice(device);
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    return hooks_.maybeExchangeDevice(device);
  }
  void deviceSynchronize(DeviceIndex device) const override;

  // --- memory ---
  bool isPinnedPtr(const void* data) const override {
    return hooks_.isPinnedPtr(data);
  }
  Allocator* getPinnedMemoryAllocator() const override {
    return hooks_.getPinnedMemoryAllocator();
  }
  Allocator* getCUDADeviceAllocator() const override;
  Device getDeviceFromPtr(void* data) const override {
    return hooks_.getDeviceFromPtr(data);
  }

  // --- random numbers ---
  const at::Generator& getDefaultGenerator(
      DeviceIndex device = -1) const override {
    return hooks_.getDefaultGenerator(device);
  }
  at::Generator getNewGenerator(DeviceIndex device = -1) const override {
    return hooks_.getNewGenerator(device);
  }

 private:
  const OpenRegHooksInterface hooks_;
};

} // namespace c10::openreg
