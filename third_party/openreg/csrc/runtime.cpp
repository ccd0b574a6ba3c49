#include "runtime.h"

#include "adversary.h"
#include "device.h"
#include "fault.h"
#include "os.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>

namespace openreg {
namespace {

thread_local int currentDeviceIndex = 0;

// More threads hardly make a copy faster: the memory is busy.
constexpr int kTransferThreads = 4;

} // namespace

Runtime::Runtime(Config settings)
    : config(std::move(settings)),
      addresses(config.devices),
      transferThreads(
          std::min(static_cast<int>(os::processorCount()), kTransferThreads)),
      schedule(config.schedule),
      adversaryOnCall(std::make_unique<Adversary>(config.seed)) {
  for (size_t i = 0; i < config.devices.size(); ++i) {
    devices.push_back(
        std::make_unique<Device>(static_cast<int>(i), config, *this));
  }
  if (config.faults) {
    faults::set(*config.faults);
  }
}

Device& Runtime::currentDevice() {
  return *devices[static_cast<size_t>(currentDeviceIndex)];
}

Device* Runtime::findDevice(int index) {
  if (index < 0 || static_cast<size_t>(index) >= devices.size()) {
    fail(
        orErrorInvalidDevice,
        "device %d is not in [0, %zu)",
        index,
        devices.size());
    return nullptr;
  }
  return devices[static_cast<size_t>(index)].get();
}

namespace process {

std::atomic<Phase> phase{Phase::Fresh};
std::atomic<Runtime*> instance{nullptr};
std::atomic<bool> exiting{false};

namespace {

std::atomic<bool> used{false};
std::mutex startMutex;
std::string configurationError;

// docs:begin exit-rule
// How long exit() waits for kernels that are running.
constexpr uint64_t kExitPatience = 1'000'000'000;

// Queued work is abandoned at exit. What is running gets a moment to finish,
// because it may use objects that are about to be destroyed.
void onExit() {
  if (phase.load() != Phase::Ready) {
    return;
  }
  exiting.store(true);
  os::heavyFence();
  const uint64_t deadline = os::now() + kExitPatience;
  runtime().streams.forEach([&](const Stream& stream) {
    while (stream.running() && os::now() < deadline) {
      os::yield();
    }
  });
}
// docs:end exit-rule

} // namespace

orError_t enterSlowly() {
  std::unique_lock lock(startMutex, std::defer_lock);
  if (phase.load() == Phase::Fresh) {
    lock.lock();
  }
  if (phase.load() == Phase::Fresh) {
    Config config;
    configurationError = config.read();
    if (!configurationError.empty()) {
      phase.store(Phase::Misconfigured);
    } else if (config.devices.empty()) {
      phase.store(Phase::NoDevice);
    } else {
      instance.store(new Runtime(std::move(config)));
      std::atexit(onExit);
      phase.store(Phase::Ready);
    }
  }
  switch (phase.load()) {
    case Phase::Misconfigured:
      return failWith(orErrorInvalidConfiguration, configurationError);
    case Phase::NoDevice:
      return fail(
          orErrorNoDevice,
          "no device is visible: OPENREG_DEVICE_COUNT is 0, or "
          "OPENREG_VISIBLE_DEVICES names none of them");
    case Phase::Forked:
      return fail(
          orErrorInitializationError,
          "this process was forked from one that had used openreg, and device "
          "threads do not survive fork(): start processes with 'spawn', or "
          "fork "
          "before the first use");
    default:
      return orSuccess;
  }
}

void markUsed() {
  if (!used.exchange(true)) {
    os::onFork([] { phase.store(Phase::Forked); });
  }
}

} // namespace process
} // namespace openreg

using namespace openreg;

orError_t orGetDeviceCount(int* count) {
  if (count) {
    *count = 0;
  }
  return api("orGetDeviceCount", [&](Runtime& runtime) {
    if (!count) {
      return fail(orErrorInvalidValue, "count must not be NULL");
    }
    *count = static_cast<int>(runtime.devices.size());
    return orSuccess;
  });
}

orError_t orSetDevice(int device) {
  return api("orSetDevice", [&](Runtime& runtime) {
    if (!runtime.findDevice(device)) {
      return orErrorInvalidDevice;
    }
    currentDeviceIndex = device;
    return orSuccess;
  });
}

orError_t orGetDevice(int* device) {
  return api("orGetDevice", [&](Runtime&) {
    if (!device) {
      return fail(orErrorInvalidValue, "device must not be NULL");
    }
    *device = currentDeviceIndex;
    return orSuccess;
  });
}
