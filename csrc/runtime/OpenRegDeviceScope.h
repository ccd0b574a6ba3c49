// The current device for a while. Free of c10; OpenRegGuard is the same for those
// who use c10's guards.
#pragma once

#include "runtime/OpenRegException.h"

namespace c10::openreg {

/// The most devices there can be, the bound of OPENREG_DEVICE_COUNT: for arrays with
/// a place per device.
inline constexpr int kMaxDevices = 64;

/// Makes a device current for the calling thread and restores the previous one in its
/// destructor. Throws if there is no such device.
class [[nodiscard]] DeviceScope {
 public:
  explicit DeviceScope(int device) {
    OPENREG_CHECK(orGetDevice(&before_));
    OPENREG_CHECK(orSetDevice(device));
  }
  ~DeviceScope() {
    OPENREG_CHECK_WARN(orSetDevice(before_));
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = -1;
};

} // namespace c10::openreg
