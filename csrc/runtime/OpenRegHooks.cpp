#include "runtime/OpenRegHooks.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegGenerator.h"
#include "runtime/OpenRegGuard.h"
#include "runtime/OpenRegHostAllocator.h"

namespace c10::openreg {

// --- presence -----------------------------------------------------------------

bool OpenRegHooksInterface::isAvailable() const {
  return device_count() > 0;
}

bool OpenRegHooksInterface::hasPrimaryContext(DeviceIndex device) const {
  return is_initialized(device);
}

void OpenRegHooksInterface::init() const {
  device_count_ensure_non_zero();
}

// --- devices ------------------------------------------------------------------

DeviceIndex OpenRegHooksInterface::deviceCount() const {
  return device_count();
}

void OpenRegHooksInterface::setCurrentDevice(DeviceIndex device) const {
  set_device(device);
}

DeviceIndex OpenRegHooksInterface::getCurrentDevice() const {
  return current_device();
}

DeviceIndex OpenRegHooksInterface::exchangeDevice(DeviceIndex device) const {
  return ExchangeDevice(device);
}

DeviceIndex OpenRegHooksInterface::maybeExchangeDevice(
    DeviceIndex device) const {
  return MaybeExchangeDevice(device);
}

// --- memory -------------------------------------------------------------------

bool OpenRegHooksInterface::isPinnedPtr(const void* data) const {
  return isPinned(data);
}

Allocator* OpenRegHooksInterface::getPinnedMemoryAllocator() const {
  return getOpenRegHostAllocator();
}

// docs:begin device-from-pointer
Device OpenRegHooksInterface::getDeviceFromPtr(void* data) const {
  return {kDeviceType, static_cast<DeviceIndex>(deviceOfPointer(data))};
}
// docs:end device-from-pointer

// The bytes that both sizes have in common are kept, in stream order: the old
// memory goes back to the pool at once, which hands it out for this stream only.
void resizeStorage(const Storage& storage, size_t nbytes) {
  StorageImpl& impl = *storage.unsafeGetStorageImpl();
  TORCH_CHECK(
      impl.resizable(), "Trying to resize storage that is not resizable");
  const OpenRegGuard guard(storage.device());
  DataPtr resized = getOpenRegDeviceAllocator().allocate(nbytes);
  getOpenRegDeviceAllocator().copy_data(
      resized.get(), impl.data(), std::min(nbytes, impl.nbytes()));
  impl.set_data_ptr_noswap(std::move(resized));
  impl.clear_materializer(); // nobody shares the new memory
  impl.set_nbytes(nbytes);
}

void OpenRegHooksInterface::resizePrivateUse1Bytes(
    const Storage& storage,
    size_t nbytes) const {
  resizeStorage(storage, nbytes);
}

// --- random numbers -----------------------------------------------------------

const at::Generator& OpenRegHooksInterface::getDefaultGenerator(
    DeviceIndex device) const {
  return getDefaultOpenRegGenerator(device);
}

at::Generator OpenRegHooksInterface::getNewGenerator(DeviceIndex device) const {
  return createOpenRegGenerator(device);
}

namespace {

// docs:begin register-hooks
struct RegisterHooks {
  RegisterHooks() {
    if (kDeviceType == DeviceType::PrivateUse1) {
      at::RegisterPrivateUse1HooksInterface(new OpenRegHooksInterface);
    }
  }
} registerHooks;
// docs:end register-hooks

} // namespace
} // namespace c10::openreg
