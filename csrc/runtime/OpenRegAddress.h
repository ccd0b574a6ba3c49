// Device addresses, which tensors hold, and kernel addresses, at which the bytes
// can be reached; and what a pointer points into.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace c10::openreg {

namespace detail {
// All device memory of this process lies between the two, which are set after the
// distance.
extern std::atomic<uintptr_t> lowestAddress, highestAddress;
extern std::atomic<ptrdiff_t> kernelDistance; // 0: not known yet
/// For an address that may not belong to a device, or may be the first one ever used.
ptrdiff_t distanceFor(const void* pointer);
} // namespace detail

/// Where kernels find the bytes of a device address, and the way back: the
/// distance is the same for all device memory. nullptr stays nullptr; an address
/// that is nowhere near the device's memory is an error.
inline void* kernelAddress(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  if (address == 0) {
    return nullptr;
  }
  const bool isOurs =
      address >= detail::lowestAddress.load(std::memory_order_acquire) &&
      address < detail::highestAddress.load(std::memory_order_acquire);
  const ptrdiff_t distance = isOurs
      ? detail::kernelDistance.load(std::memory_order_relaxed)
      : detail::distanceFor(pointer);
  return const_cast<char*>(static_cast<const char*>(pointer)) + distance;
}

inline void* deviceAddress(const void* kernelPointer) {
  return kernelPointer
      ? const_cast<char*>(static_cast<const char*>(kernelPointer)) -
          detail::kernelDistance.load(std::memory_order_relaxed)
      : nullptr;
}

/// The device whose memory contains a device address; throws if there is none.
int deviceOfPointer(const void* pointer);

/// Whether an address lies where device memory is or was, without asking the device.
inline bool isDeviceAddress(const void* pointer) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return address >= detail::lowestAddress.load(std::memory_order_relaxed) &&
      address < detail::highestAddress.load(std::memory_order_relaxed);
}

/// Whether a device address lies in memory that is allocated.
bool isDevicePointer(const void* pointer) noexcept;

/// Whether a pointer is into pinned or registered host memory.
bool isPinned(const void* pointer) noexcept;

/// Memory straight from a device; nullptr if it does not have that much.
void* mallocOn(int device, size_t bytes);

/// Puts memory of a device behind addresses that were reserved there, in pieces of
/// `unit` bytes, which can be taken back one by one. Returns false and changes nothing
/// if the device does not have that much.
bool mapOn(int device, void* pointer, size_t bytes, size_t unit);

} // namespace c10::openreg
