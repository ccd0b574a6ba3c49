#include "runtime/OpenRegReset.h"

#include "remote/DeviceProcess.h"
#include "runtime/OpenRegException.h"
#include "runtime/OpenRegGuard.h"
#include "runtime/OpenRegLostMemory.h"

namespace c10::openreg {

// First the process, for work that waits for its answer has to finish.
void reset_device(DeviceIndex device) {
  remote::DeviceProcess::end(device);
  const OpenRegGuard guard(device);
  loseMemory(device);
  OPENREG_CHECK(orDeviceRecover());
}

} // namespace c10::openreg
