// What PyTorch asks a backend outside of operators.
#pragma once

#include <ATen/detail/PrivateUse1HooksInterface.h>

namespace c10::openreg {

/// Gives a storage of a device another size.
void resizeStorage(const Storage& storage, size_t nbytes);

/// Threads: any may call anything; there is one for all.
struct OpenRegHooksInterface final : at::PrivateUse1HooksInterface {
  // --- presence: these never throw, and start nothing ---
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override;
  bool hasPrimaryContext(DeviceIndex device) const override;

  /// Throws the reason if the device cannot be used.
  void init() const override;

  // --- devices ---
  DeviceIndex deviceCount() const override;
  void setCurrentDevice(DeviceIndex device) const override;
  DeviceIndex getCurrentDevice() const override;
  DeviceIndex exchangeDevice(DeviceIndex device) const override;
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override;

  // --- memory ---
  bool isPinnedPtr(const void* data) const override;
  Allocator* getPinnedMemoryAllocator() const override;
  /// Throws if `data` is not device memory.
  Device getDeviceFromPtr(void* data) const override;
  void resizePrivateUse1Bytes(const Storage& storage, size_t nbytes)
      const override;

  // --- random numbers ---
  const at::Generator& getDefaultGenerator(
      DeviceIndex device = -1) const override;
  at::Generator getNewGenerator(DeviceIndex device = -1) const override;
};

} // namespace c10::openreg
