// Memory whose contents went with its device, and who may touch it.
#pragma once

#include <c10/core/Device.h>
#include <c10/macros/Macros.h>

#include <atomic>
#include <string>

namespace c10::openreg {

/// Throws c10::AcceleratorError with orErrorDeviceLost.
[[noreturn]] void throwDeviceLost(const std::string& what);

// docs:begin lost-memory
/// What is allocated on a device when it is reset is lost: nobody wrote what is in
/// there now. It must not be read, until it is overwritten whole, or freed.
void loseMemory(DeviceIndex device);
// docs:end lost-memory

namespace detail {
extern std::atomic<bool> anyMemoryLost;
void throwIfLost(const void* pointer);
void forgetLost(const void* pointer);
} // namespace detail

/// Throws if the allocation that starts at `pointer` is lost.
inline void checkNotLost(const void* pointer) {
  if (C10_UNLIKELY(detail::anyMemoryLost.load(std::memory_order_relaxed))) {
    detail::throwIfLost(pointer);
  }
}

/// The allocation that starts at `pointer` is about to be overwritten whole, or
/// freed.
inline void forgetLost(const void* pointer) {
  if (C10_UNLIKELY(detail::anyMemoryLost.load(std::memory_order_relaxed))) {
    detail::forgetLost(pointer);
  }
}

} // namespace c10::openreg
