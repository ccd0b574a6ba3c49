// What every tensor needs from a device: it can be made current, and it has memory.
#pragma once

#include "driver.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace mini {
using namespace c10;

// Without streams: work is done when a call returns, and nothing waits.
struct MiniGuard : impl::DeviceGuardImplInterface {
  DeviceType type() const override {
    return DeviceType::PrivateUse1;
  }
  DeviceIndex deviceCount() const noexcept override {
    return kDevices;
  }
  Device getDevice() const override {
    return {type(), static_cast<DeviceIndex>(miniCurrentDevice)};
  }
  void setDevice(Device device) const override {
    const bool exists = device.index() >= 0 && device.index() < kDevices;
    TORCH_CHECK(exists, "no ", device, ": there are ", kDevices, " devices");
    miniCurrentDevice = device.index();
  }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    setDevice(device);
    return before;
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    miniCurrentDevice = device.index();
  }
  Stream getStream(Device device) const override {
    return Stream(Stream::DEFAULT, device.has_index() ? device : getDevice());
  }
  Stream exchangeStream(Stream stream) const override {
    return getStream(stream.device());
  }
  void synchronizeDevice(DeviceIndex /*index*/) const override {}
};

struct MiniAllocator : Allocator {
  DataPtr allocate(size_t bytes) override {
    const auto index = static_cast<DeviceIndex>(miniCurrentDevice);
    void* data = bytes > 0 ? miniMalloc(bytes) : nullptr;
    const bool enough = data || bytes == 0;
    TORCH_CHECK_WITH(OutOfMemoryError, enough, "mini has no ", bytes, " bytes");
    return {data, data, &miniFree, {DeviceType::PrivateUse1, index}};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    miniMemcpy(to, from, bytes);
  }
};

} // namespace mini
