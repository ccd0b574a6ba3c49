// How busy a device is, by looking at it many times: nothing is counted where the
// work is done.
#include "device.h"
#include "runtime.h"

#include <chrono>
#include <thread>

using namespace openreg;

namespace {

constexpr int kLooks = 50;
constexpr std::chrono::microseconds kPause{400};

bool isRunning(Runtime& runtime, const Device& device) {
  bool running = false;
  runtime.streams.forEach([&](Stream& stream) {
    running = running || (stream.deviceOrNull() == &device && stream.running());
  });
  return running;
}

} // namespace

orError_t orDeviceGetUtilization(int* percent, int device) {
  return api("orDeviceGetUtilization", [&](Runtime& runtime) {
    if (!percent) {
      return fail(orErrorInvalidValue, "percent must not be NULL");
    }
    const Device* found = runtime.findDevice(device);
    if (!found) {
      return orErrorInvalidDevice;
    }
    int busy = 0;
    for (int look = 0; look < kLooks; ++look) {
      busy += isRunning(runtime, *found) ? 1 : 0;
      std::this_thread::sleep_for(kPause);
    }
    *percent = 100 * busy / kLooks;
    return orSuccess;
  });
}

// Not recorded: kernels ask, and a profile is about what programs call.
orError_t orGetWaitingThreads(int* threads) {
  return unrecordedApi("orGetWaitingThreads", [&](Runtime& runtime) {
    if (!threads) {
      return fail(orErrorInvalidValue, "threads must not be NULL");
    }
    *threads = runtime.waitingThreads.load(std::memory_order_relaxed);
    return orSuccess;
  });
}

orError_t orDeviceGetQueueDepth(size_t* tasks, size_t* streams, int device) {
  return api("orDeviceGetQueueDepth", [&](Runtime& runtime) {
    if (!tasks || !streams) {
      return fail(orErrorInvalidValue, "tasks and streams must not be NULL");
    }
    const Device* found = runtime.findDevice(device);
    if (!found) {
      return orErrorInvalidDevice;
    }
    *tasks = 0;
    *streams = 0;
    runtime.streams.forEach([&](const Stream& stream) {
      if (stream.deviceOrNull() == found && stream.unfinished() > 0) {
        *tasks += stream.unfinished();
        ++*streams;
      }
    });
    return orSuccess;
  });
}
