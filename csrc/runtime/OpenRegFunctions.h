// The current device and its neighbours, under the names c10/cuda uses.
//
// Threads: any; the current device is each thread's own.
#pragma once

#include "runtime/OpenRegDeviceScope.h"

#include <c10/core/Device.h>

namespace c10::openreg {

/// The number of visible devices; 0 if the library cannot be used. Never throws,
/// starts nothing, and answers in a forked child too.
DeviceIndex device_count() noexcept;

/// The same, but throws the reason if there is none.
DeviceIndex device_count_ensure_non_zero();

/// Throws unless `device` is in [0, device_count()).
void check_device_index(DeviceIndex device);

/// The calling thread's device.
DeviceIndex current_device();
void set_device(DeviceIndex device);

/// Makes `device` current and returns the previous one.
DeviceIndex ExchangeDevice(DeviceIndex device);

/// The same, unless `device` is negative: then nothing changes and -1 comes back.
DeviceIndex MaybeExchangeDevice(DeviceIndex device);

/// `device`, or the current one if it is negative; throws if there is no such device.
DeviceIndex device_or_current(DeviceIndex device);

/// The properties of a device.
orDeviceProp get_device_properties(DeviceIndex device);
bool can_device_access_peer(DeviceIndex device, DeviceIndex peer);

/// How much of the next 20 milliseconds or so a device works, in percent.
int device_utilization(DeviceIndex device);

/// Waits for all work of the current device.
void device_synchronize();

/// Whether kernels run in device processes (OPENREG_EXECUTOR=process), as libopenreg
/// has read it at its first use.
bool runs_in_device_processes() noexcept;

/// Whether the process was forked after the device was used: then it is unusable.
bool is_in_bad_fork() noexcept;

/// Whether anything of the device was set up in this process: a thread, memory.
bool is_initialized(DeviceIndex device) noexcept;

/// Throws what broke the device, if something did. Does not set anything up.
void check_not_broken(DeviceIndex device);

} // namespace c10::openreg
