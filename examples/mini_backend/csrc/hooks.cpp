// What PyTorch asks of a device besides: random numbers, and a table of functions.
#include "driver.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <torch/library.h>

#include <future>

using namespace c10;

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
    DataPtr data = GetAllocator(DeviceType::PrivateUse1)->allocate(bytes);
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
