#include "remote/Reset.h"

#include "remote/DeviceProcess.h"
#include "runtime/OpenRegDeviceMemory.h"

namespace c10::openreg {
namespace {

// Part of every orDeviceReset(), whoever calls it. Work that waits for the process
// has to finish, so the process ends first.
void endAndLose(int device) {
  remote::DeviceProcess::end(device);
  if (DeviceMemory* memory = DeviceMemory::find(device)) {
    memory->lose();
  }
}

[[maybe_unused]] const bool registered = (orSetResetCallback(endAndLose), true);

} // namespace

void reset_device(DeviceIndex device) {
  const DeviceScope scope(device);
  OPENREG_CHECK(orDeviceReset());
}

} // namespace c10::openreg
