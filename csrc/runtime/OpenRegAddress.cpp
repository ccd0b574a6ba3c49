#include "runtime/OpenRegAddress.h"

#include "runtime/OpenRegDeviceScope.h"
#include "runtime/OpenRegFaults.h"
#include "runtime/OpenRegObserver.h"

#include <atomic>
#include <sstream>
#include <vector>

namespace c10::openreg {

std::atomic<uintptr_t> detail::lowestAddress{UINTPTR_MAX};
std::atomic<uintptr_t> detail::highestAddress{0};
std::atomic<ptrdiff_t> detail::kernelDistance{0};

namespace {

using detail::highestAddress;
using detail::kernelDistance;
using detail::lowestAddress;

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

// Asks for memory of the current device: libopenreg refuses that of others.
ptrdiff_t findKernelDistance(const void* pointer) {
  const void* found = orKernelPointer(pointer);
  OPENREG_CHECK(found ? orSuccess : orPeekAtLastError());
  const ptrdiff_t distance =
      static_cast<const char*>(found) - static_cast<const char*>(pointer);
  kernelDistance.store(distance, std::memory_order_relaxed);
  return distance;
}

orPointerAttributes lookUp(const void* pointer) noexcept {
  orPointerAttributes attributes{};
  if (orPointerGetAttributes(&attributes, pointer) != orSuccess) {
    orGetLastError(); // a device address that is not allocated: an answer too
    attributes.type = orMemoryTypeUnmanaged;
  }
  return attributes;
}

void noteMapped(void* pointer, size_t bytes) {
  if (kernelDistance.load(std::memory_order_relaxed) == 0) {
    findKernelDistance(pointer);
  }
  noteAddresses(pointer, bytes);
  observe(&RuntimeObserver::onMap, pointer, bytes);
}

[[noreturn]] void throwNotOurs(orError_t status, const void* pointer) {
  std::ostringstream what;
  what << pointer << " is not memory of an openreg device";
  throwError(status, what.str());
}

} // namespace

void* mallocOn(int device, size_t bytes) {
  const DeviceScope scope(device);
  void* pointer = nullptr;
  const WithoutFaults part; // of an allocation that its caller asks for
  const orError_t status = orMalloc(&pointer, bytes);
  if (status == orErrorMemoryAllocation) {
    orGetLastError(); // the caller makes an exception of it
    return nullptr;
  }
  OPENREG_CHECK(status);
  noteMapped(pointer, bytes);
  return pointer;
}

bool mapOn(int device, void* pointer, size_t bytes, size_t unit) {
  const DeviceScope scope(device);
  const WithoutFaults part; // of an allocation that its caller asks for
  // All memory is made before any is mapped: unmapping would have to wait.
  std::vector<orMemHandle_t> pieces(bytes / unit);
  orError_t status = orSuccess;
  for (size_t i = 0; i < pieces.size() && status == orSuccess; ++i) {
    status = orMemCreate(&pieces[i], unit);
  }
  auto* place = static_cast<char*>(pointer);
  for (orMemHandle_t piece : pieces) {
    if (status == orSuccess) {
      OPENREG_CHECK(orMemMap(place, unit, piece));
      place += unit;
    }
    if (piece) { // a mapping keeps its memory: nobody needs the handle
      OPENREG_CHECK_WARN(orMemRelease(piece));
    }
  }
  if (status == orErrorMemoryAllocation) {
    orGetLastError(); // the caller makes an exception of it
    return false;
  }
  OPENREG_CHECK(status);
  OPENREG_CHECK(orMemSetAccess(pointer, bytes, orMemAccessReadWrite));
  noteMapped(pointer, bytes);
  return true;
}

int deviceOfPointer(const void* pointer) {
  const orPointerAttributes attributes = lookUp(pointer);
  if (attributes.type != orMemoryTypeDevice) {
    throwNotOurs(orErrorInvalidValue, pointer);
  }
  return attributes.device;
}

bool isDevicePointer(const void* pointer) noexcept {
  return lookUp(pointer).type == orMemoryTypeDevice;
}

bool isPinned(const void* pointer) noexcept {
  return lookUp(pointer).type == orMemoryTypeHost;
}

// Another process's memory is reached by whichever device it was opened for.
ptrdiff_t detail::distanceFor(const void* pointer) {
  const orPointerAttributes attributes = lookUp(pointer);
  if (attributes.type != orMemoryTypeDevice) {
    throwNotOurs(orErrorIllegalAddress, pointer);
  }
  const ptrdiff_t known = kernelDistance.load(std::memory_order_relaxed);
  if (known != 0) {
    return known;
  }
  const DeviceScope scope(attributes.device);
  return findKernelDistance(pointer);
}

} // namespace c10::openreg
