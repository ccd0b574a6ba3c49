// Which addresses are those of devices.
#pragma once

#include "openreg/device.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace openreg {

/// The address space of all devices, reserved on first use: device i owns
/// [i * stride, (i + 1) * stride) of two ranges. The first holds device
/// addresses, at which nothing is readable; the second holds the same bytes for
/// kernels. Their distance is one constant.
///
/// Threads: any may call anything.
class AddressSpace {
 public:
  explicit AddressSpace(const std::vector<orDeviceProp>& devices);

  /// Makes sure that the ranges are reserved. Throws std::bad_alloc.
  void reserve();

  /// The device that owns a device address, or -1.
  int deviceOf(const void* pointer) const;

  /// A device address as kernels see it.
  void* kernelAddress(const void* pointer) const {
    return reinterpret_cast<void*>(
        reinterpret_cast<uintptr_t>(pointer) - deviceBase_.load() +
        kernelBase_.load());
  }

  /// Whether any of the bytes has a device address.
  bool overlaps(const void* pointer, size_t bytes) const;

  size_t stride() const {
    return stride_;
  }
  char* deviceAddress(int device) const {
    return reinterpret_cast<char*>(deviceBase_.load()) +
        static_cast<size_t>(device) * stride_;
  }

 private:
  size_t count_;
  size_t stride_ = 0;
  std::once_flag reserved_;
  std::atomic<uintptr_t> deviceBase_{0}; // 0: not reserved yet
  std::atomic<uintptr_t> kernelBase_{0};
};

} // namespace openreg
