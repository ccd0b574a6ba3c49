#include "remote/Reset.h"

#include "remote/DeviceProcess.h"
#include "runtime/OpenRegDeviceMemory.h"

namespace c10::openreg {

// First the process, for work that waits for its answer has to finish.
void reset_device(DeviceIndex device) {
  remote::DeviceProcess::end(device);
  const DeviceScope scope(device);
  if (DeviceMemory* memory = DeviceMemory::find(device)) {
    memory->lose();
  }
  OPENREG_CHECK(orDeviceRecover());
}

} // namespace c10::openreg
