#include "runtime/OpenRegAddress.h"

#include "runtime/OpenRegGuard.h"

#include <atomic>

namespace c10::openreg {
namespace {

// All device memory lies between the two.
std::atomic<uintptr_t> lowestAddress{UINTPTR_MAX}, highestAddress{0};

std::atomic<ptrdiff_t> kernelDistance{0}; // 0: not known yet

bool mayBeOurs(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return address >= lowestAddress.load(std::memory_order_relaxed) &&
      address < highestAddress.load(std::memory_order_relaxed);
}

ptrdiff_t findKernelDistance(const void* pointer) {
  const OpenRegGuard guard(deviceOfPointer(pointer));
  const void* found = orKernelPointer(pointer);
  OPENREG_CHECK(found ? orSuccess : orPeekAtLastError());
  const ptrdiff_t distance =
      static_cast<const char*>(found) - static_cast<const char*>(pointer);
  kernelDistance.store(distance, std::memory_order_relaxed);
  return distance;
}

} // namespace

void noteAddresses(const void* pointer, size_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(pointer);
  for (uintptr_t known = lowestAddress;
       first < known && !lowestAddress.compare_exchange_weak(known, first);) {
  }
  const uintptr_t end = first + bytes;
  for (uintptr_t known = highestAddress;
       end > known && !highestAddress.compare_exchange_weak(known, end);) {
  }
}

DeviceIndex deviceOfPointer(const void* pointer) {
  orPointerAttributes attributes;
  OPENREG_CHECK(orPointerGetAttributes(&attributes, pointer));
  TORCH_CHECK(
      attributes.type == orMemoryTypeDevice,
      pointer,
      " is not memory of an openreg device");
  return static_cast<DeviceIndex>(attributes.device);
}

bool isDevicePointer(const void* pointer) noexcept {
  orPointerAttributes attributes;
  const orError_t status = orPointerGetAttributes(&attributes, pointer);
  orGetLastError(); // an answer, not a failure
  return status == orSuccess && attributes.type == orMemoryTypeDevice;
}

void* kernelAddress(const void* pointer) {
  if (!pointer) {
    return nullptr;
  }
  ptrdiff_t distance = kernelDistance.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(distance == 0 || !mayBeOurs(pointer))) {
    distance = findKernelDistance(pointer);
  }
  return const_cast<char*>(static_cast<const char*>(pointer)) + distance;
}

void* deviceAddress(const void* kernelPointer) {
  return kernelPointer
      ? const_cast<char*>(static_cast<const char*>(kernelPointer)) -
          kernelDistance.load(std::memory_order_relaxed)
      : nullptr;
}

} // namespace c10::openreg
