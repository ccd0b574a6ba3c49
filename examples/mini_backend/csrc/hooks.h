// What else PyTorch asks of a device: random numbers, and a table of functions.
#pragma once

#include "driver.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>

namespace mini {
using namespace c10;

// The CPU's numbers, but a generator of this device.
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

inline std::vector<at::Generator> makeGenerators() {
  std::vector<at::Generator> made;
  for (int index = 0; index < kDevices; ++index) {
    made.push_back(at::make_generator<MiniGenerator>(index));
  }
  return made;
}
inline std::vector<at::Generator> defaultGenerators = makeGenerators();

struct MiniHooks : at::PrivateUse1HooksInterface {
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
    const DeviceGuard exists({DeviceType::PrivateUse1, index});
    return at::make_generator<MiniGenerator>(index);
  }
};

} // namespace mini
