#include "runtime/OpenRegFunctions.h"

#include "runtime/OpenRegDeviceScope.h"
#include "runtime/OpenRegObserver.h"
#include "runtime/OpenRegTrace.h"

#include <atomic>

namespace c10::openreg {

DeviceIndex device_count() noexcept {
  static std::atomic<int> known{-1}; // it never changes
  int count = known.load(std::memory_order_relaxed);
  if (count >= 0) {
    return static_cast<DeviceIndex>(count);
  }
  const orError_t status = orGetDeviceCount(&count);
  if (status == orSuccess || status == orErrorNoDevice) {
    known.store(count, std::memory_order_relaxed);
  } else {
    warnOfError(status, "orGetDeviceCount(&count)");
  }
  return static_cast<DeviceIndex>(count);
}

DeviceIndex device_count_ensure_non_zero() {
  int count = 0;
  OPENREG_CHECK(orGetDeviceCount(&count));
  return static_cast<DeviceIndex>(count);
}

void check_device_index(DeviceIndex device) {
  const DeviceIndex count = device_count_ensure_non_zero();
  TORCH_CHECK(
      device >= 0 && device < count,
      "Device index value ",
      static_cast<int>(device),
      " is out of index range [0, ",
      static_cast<int>(count),
      ")");
}

DeviceIndex current_device() {
  int device = -1;
  OPENREG_CHECK(orGetDevice(&device));
  return static_cast<DeviceIndex>(device);
}

void set_device(DeviceIndex device) {
  OPENREG_CHECK(orSetDevice(device));
}

DeviceIndex ExchangeDevice(DeviceIndex device) {
  const DeviceIndex before = current_device();
  if (device != before) {
    set_device(device);
  }
  return before;
}

DeviceIndex MaybeExchangeDevice(DeviceIndex device) {
  return device < 0 ? DeviceIndex(-1) : ExchangeDevice(device);
}

DeviceIndex device_or_current(DeviceIndex device) {
  if (device < 0) {
    return current_device();
  }
  check_device_index(device);
  return device;
}

orDeviceProp get_device_properties(DeviceIndex device) {
  orDeviceProp properties;
  OPENREG_CHECK(orGetDeviceProperties(&properties, device));
  return properties;
}

bool can_device_access_peer(DeviceIndex device, DeviceIndex peer) {
  int can = 0;
  OPENREG_CHECK(orDeviceCanAccessPeer(&can, device, peer));
  return can != 0;
}

int device_utilization(DeviceIndex device) {
  int percent = 0;
  OPENREG_CHECK(orDeviceGetUtilization(&percent, device));
  return percent;
}

void device_synchronize() {
  trace(&Trace::trace_gpu_device_synchronization);
  OPENREG_CHECK(orDeviceSynchronize());
  observe(&RuntimeObserver::onHostWaitForDevice, int{current_device()});
}

bool runs_in_device_processes() noexcept {
  static std::atomic<int> known{-1}; // it never changes
  int executor = known.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(executor < 0)) {
    orExecutor found = orExecutorThread;
    if (orGetExecutor(&found) == orSuccess) {
      known.store(found, std::memory_order_relaxed);
    } else {
      orGetLastError(); // whoever uses the device hears of it
    }
    executor = found;
  }
  return executor == orExecutorProcess;
}

bool is_in_bad_fork() noexcept {
  int device = -1;
  const bool bad = orGetDevice(&device) == orErrorInitializationError;
  orGetLastError(); // an answer, not a failure
  return bad;
}

bool is_initialized(DeviceIndex device) noexcept {
  int active = 0;
  const orError_t status = orDeviceIsActive(&active, device);
  orGetLastError();
  return status == orSuccess && active != 0;
}

void check_not_broken(DeviceIndex device) {
  if (!is_initialized(device)) {
    return;
  }
  const DeviceScope scope(device);
  size_t free = 0;
  OPENREG_CHECK(orMemGetInfo(&free, nullptr));
}

} // namespace c10::openreg
