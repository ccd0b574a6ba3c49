// What PyTorch asks of a device: memory, the current device, random numbers.
#include "driver.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <torch/library.h>

#include <future>

namespace {
using namespace c10;

struct MiniAllocator final : Allocator {
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
} allocator;

REGISTER_ALLOCATOR(DeviceType::PrivateUse1, &allocator)

// Work is done when a call returns, so a device has one stream, and nothing waits.
struct MiniGuard final : impl::DeviceGuardImplInterface {
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

C10_REGISTER_GUARD_IMPL(PrivateUse1, MiniGuard)

// The CPU's numbers, under the device.
struct MiniGenerator final : at::CPUGeneratorImpl {
  explicit MiniGenerator(int index) {
    const int own = index < 0 ? miniCurrentDevice : index;
    device_ = {DeviceType::PrivateUse1, static_cast<DeviceIndex>(own)};
    key_set_ = DispatchKeySet(DispatchKey::PrivateUse1);
  }
  MiniGenerator* clone_impl() const override {
    auto* copy = new MiniGenerator(device_.index());
    copy->set_state(*get_state());
    return copy;
  }
};

std::array defaultGenerators{
    at::make_generator<MiniGenerator>(0),
    at::make_generator<MiniGenerator>(1)};

TORCH_LIBRARY(mini, m) {
  m.def("manual_seed_all", [](int64_t seed) {
    for (auto& generator : defaultGenerators) {
      generator.set_current_seed(static_cast<uint64_t>(seed));
    }
  });
  // Autograd has a thread per device, which may still free what the last pass has
  // captured when Python ends. One more pass, without Python, waits for that.
  m.def("settle_autograd", [] {
    for (DeviceIndex i = 0; i < kDevices; ++i) {
      std::async(std::launch::async, [i] {
        const Device device(DeviceType::PrivateUse1, i);
        at::zeros(1, device).requires_grad_().view({1}).backward();
      }).wait();
    }
  });
}

struct MiniHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return true;
  }
  bool hasPrimaryContext(DeviceIndex /*index*/) const override {
    return true;
  }
  DeviceIndex deviceCount() const override {
    return kDevices;
  }
  void resizePrivateUse1Bytes(const Storage& storage, size_t bytes)
      const override {
    const DeviceGuard on(storage.device());
    DataPtr data = allocator.allocate(bytes);
    miniMemcpy(data.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(data));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
  const at::Generator& getDefaultGenerator(DeviceIndex index) const override {
    return defaultGenerators.at(index < 0 ? miniCurrentDevice : index);
  }
  at::Generator getNewGenerator(DeviceIndex index) const override {
    return at::make_generator<MiniGenerator>(index);
  }
};

const bool hooksRegistered =
    (at::RegisterPrivateUse1HooksInterface(new MiniHooks), true);

} // namespace
