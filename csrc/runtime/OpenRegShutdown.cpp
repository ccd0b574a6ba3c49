#include "runtime/OpenRegShutdown.h"

#include "runtime/OpenRegDeviceType.h"
#include "runtime/OpenRegFunctions.h"

#include <ATen/ops/empty.h>

#include <thread>

namespace c10::openreg {
namespace {

// A backward pass of one step, which the device's thread begins when it is done
// with the one before. No element is computed, so a broken device runs it, too.
void runBackward(DeviceIndex device) {
  const auto options = at::TensorOptions(Device(kDeviceType, device));
  const auto leaf = at::empty({0}, options).requires_grad_();
  leaf.view({0}).backward(at::empty({0}, options));
}

} // namespace

// docs:begin settle-autograd
// Calls backward() in a new thread, which has no Python state that the pass could
// capture: freeing this last pass takes no GIL.
void settle_autograd_threads() noexcept {
  try {
    std::thread([] {
      for (DeviceIndex device = 0; device < device_count(); ++device) {
        try {
          if (is_initialized(device)) {
            runBackward(device);
          }
        } catch (...) {
          // The next device's thread may still be busy.
        }
      }
    }).join();
  } catch (...) {
    // The system has no thread left; the process ends anyway.
  }
}
// docs:end settle-autograd

} // namespace c10::openreg
