#include "device.h"

#include "adversary.h"
#include "os.h"
#include "runtime.h"

#include <utility>

namespace openreg {
namespace {

std::atomic<orResetCallback> resetCallback{nullptr};

} // namespace

Device::Device(int index, const Config& config, Runtime& runtime)
    : index_(index),
      properties_(config.devices[static_cast<size_t>(index)]),
      stickyErrors_(config.stickyErrors),
      runtime_(runtime),
      memory_(index, properties_.totalGlobalMem, runtime.addresses),
      gate_(os::processorCount()) {
  defaultStreamHandle_ = runtime.streams.create(
      [this](Stream& stream) { stream.open(*this, orStreamDefault, 0); });
  defaultStream_ = runtime.streams.find(defaultStreamHandle_);
}

void Device::breakWith(orError_t error, const std::string& detail) {
  std::lock_guard lock(errorMutex_);
  const bool mild = error_ == orErrorCommunication; // others count more
  if (error_ != orSuccess && (!mild || error == orErrorCommunication)) {
    return;
  }
  error_ = error;
  errorDetail_ = detail;
  if (sticky()) {
    errorDetail_ += "; device " + std::to_string(index_) +
        " is unusable until orDeviceReset()";
    dropsWork_.store(true, std::memory_order_relaxed);
  }
  failed_.store(true, std::memory_order_release);
}

orError_t Device::reportBroken() {
  std::lock_guard lock(errorMutex_);
  return error_ == orSuccess
      ? fail(orErrorNotPermitted, "device %d is being reset", index_)
      : failWith(error_, errorDetail_);
}

orError_t Device::reportFailure() {
  std::lock_guard lock(errorMutex_);
  if (error_ == orSuccess) {
    return orSuccess; // another thread has taken it
  }
  const orError_t error = failWith(error_, errorDetail_);
  if (!sticky()) {
    error_ = orSuccess;
    failed_.store(false, std::memory_order_relaxed);
  }
  return error;
}

bool Device::idle() {
  bool idle = true;
  runtime_.streams.forEach([&](Stream& stream) {
    idle = idle &&
        (stream.deviceOrNull() != this ||
         stream.reachedQuietly(stream.submitted()));
  });
  return idle;
}

orError_t Device::waitForAll() {
  Adversary::Targets pending;
  runtime_.streams.forEach([&](Stream& stream) {
    const uint64_t submitted = stream.submitted();
    if (stream.deviceOrNull() == this && !stream.reachedQuietly(submitted)) {
      pending.emplace_back(&stream, submitted);
    }
  });
  if (Adversary* adversary = runtime_.adversary()) {
    adversary->force(pending);
  }
  orError_t status = orSuccess;
  for (const auto& [stream, finished] : pending) {
    if (status == orSuccess) {
      status = stream->wait(finished);
    }
  }
  return status;
}

orError_t Device::reset() {
  std::lock_guard lock(resetMutex_);
  runtime_.captures.invalidate(*this);
  const bool dropped = dropsWork_.exchange(true);
  if (const orResetCallback callback = resetCallback.load()) {
    callback(index_);
  }
  if (const orError_t status = waitForAll(); status != orSuccess) {
    // Work has been dropped, so the device cannot go on as if nothing was.
    dropsWork_.store(dropped);
    breakWith(status, orGetLastErrorDetail());
    return status;
  }
  std::lock_guard errorLock(errorMutex_);
  error_ = orSuccess;
  failed_.store(false);
  dropsWork_.store(false);
  return orSuccess;
}

orError_t Device::setPeerAccess(const Device& peer, bool enabled) {
  const uint64_t bit = uint64_t{1} << peer.index();
  const uint64_t before =
      enabled ? peers_.fetch_or(bit) : peers_.fetch_and(~bit);
  if (((before & bit) != 0) != enabled) {
    return orSuccess;
  }
  return enabled
      ? fail(
            orErrorPeerAccessAlreadyEnabled,
            "access from device %d to device %d is enabled already",
            index_,
            peer.index())
      : fail(
            orErrorPeerAccessNotEnabled,
            "access from device %d to device %d is not enabled; call "
            "orDeviceEnablePeerAccess(%d, 0)",
            index_,
            peer.index(),
            peer.index());
}

bool Device::canReach(int device) const {
  return device == index_ || (peers_.load() >> device & 1) != 0;
}

} // namespace openreg

using namespace openreg;

orError_t orDeviceSynchronize(void) {
  return blockingApi("orDeviceSynchronize", [](Runtime& runtime) {
    Device& device = runtime.currentDevice();
    orError_t status = runtime.captures.checkDevice(device);
    if (status == orSuccess) {
      status = device.waitForAll();
    }
    return status == orSuccess ? device.checkAfterWait() : status;
  });
}

orError_t orDeviceReset(void) {
  return blockingApi("orDeviceReset", [](Runtime& runtime) {
    return runtime.currentDevice().reset();
  });
}

void orSetResetCallback(orResetCallback callback) {
  resetCallback.store(callback);
}

orError_t orDeviceGetMemory(orDeviceMemory* memory, int device) {
  return api("orDeviceGetMemory", [&](Runtime& runtime) {
    if (!memory) {
      return fail(orErrorInvalidValue, "memory must not be NULL");
    }
    Device* found = runtime.findDevice(device);
    if (!found) {
      return orErrorInvalidDevice;
    }
    *memory = found->memory().place();
    return orSuccess;
  });
}

orError_t orDeviceFail(int device, orError_t error, const char* message) {
  return api("orDeviceFail", [&](Runtime& runtime) {
    Device* found = runtime.findDevice(device);
    if (!found) {
      return orErrorInvalidDevice;
    }
    if (error == orSuccess || !isErrorCode(error)) {
      return fail(
          orErrorInvalidValue,
          "error must be a code of orError_t other than orSuccess, but is %d",
          static_cast<int>(error));
    }
    found->breakWith(error, message ? message : orGetErrorString(error));
    return orSuccess;
  });
}

orError_t orGetDeviceProperties(orDeviceProp* properties, int device) {
  return api("orGetDeviceProperties", [&](Runtime& runtime) {
    if (!properties) {
      return fail(orErrorInvalidValue, "properties must not be NULL");
    }
    const Device* found = runtime.findDevice(device);
    if (!found) {
      return orErrorInvalidDevice;
    }
    *properties = found->properties();
    return orSuccess;
  });
}

orError_t orDeviceGetAttribute(int* value, orDeviceAttr attribute, int device) {
  return api("orDeviceGetAttribute", [&](Runtime& runtime) {
    if (!value) {
      return fail(orErrorInvalidValue, "value must not be NULL");
    }
    const Device* found = runtime.findDevice(device);
    if (!found) {
      return orErrorInvalidDevice;
    }
    const orDeviceProp& properties = found->properties();
    switch (attribute) {
      case orDevAttrMaxThreadsPerBlock:
        *value = properties.maxThreadsPerBlock;
        return orSuccess;
      case orDevAttrMaxSharedMemoryPerBlock:
        *value = static_cast<int>(properties.sharedMemPerBlock);
        return orSuccess;
      case orDevAttrWarpSize:
        *value = properties.warpSize;
        return orSuccess;
      case orDevAttrMultiProcessorCount:
        *value = properties.multiProcessorCount;
        return orSuccess;
      case orDevAttrL2CacheSize:
        *value = static_cast<int>(properties.l2CacheSize);
        return orSuccess;
      case orDevAttrMaxThreadsPerMultiProcessor:
        *value = properties.maxThreadsPerMultiProcessor;
        return orSuccess;
      case orDevAttrComputeCapabilityMajor:
        *value = properties.major;
        return orSuccess;
      case orDevAttrComputeCapabilityMinor:
        *value = properties.minor;
        return orSuccess;
      case orDevAttrMaxRegistersPerMultiprocessor:
        *value = properties.regsPerMultiprocessor;
        return orSuccess;
    }
    return fail(
        orErrorInvalidValue,
        "attribute %d is not in orDeviceAttr",
        static_cast<int>(attribute));
  });
}

orError_t orDeviceIsActive(int* active, int device) {
  return api("orDeviceIsActive", [&](Runtime& runtime) {
    if (!active) {
      return fail(orErrorInvalidValue, "active must not be NULL");
    }
    const Device* found = runtime.findDevice(device);
    if (!found) {
      return orErrorInvalidDevice;
    }
    *active = found->active.load(std::memory_order_relaxed);
    return orSuccess;
  });
}

orError_t orGetExecutor(orExecutor* executor) {
  return api("orGetExecutor", [&](Runtime& runtime) {
    if (!executor) {
      return fail(orErrorInvalidValue, "executor must not be NULL");
    }
    *executor =
        runtime.config.kernelsElsewhere ? orExecutorProcess : orExecutorThread;
    return orSuccess;
  });
}

orError_t orDeviceCanAccessPeer(int* canAccess, int device, int peer) {
  return api("orDeviceCanAccessPeer", [&](Runtime& runtime) {
    if (!canAccess) {
      return fail(orErrorInvalidValue, "canAccess must not be NULL");
    }
    if (!runtime.findDevice(device) || !runtime.findDevice(peer)) {
      return orErrorInvalidDevice;
    }
    *canAccess = device != peer;
    return orSuccess;
  });
}

orError_t orDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return api("orDeviceEnablePeerAccess", [&](Runtime& runtime) {
    if (flags != 0) {
      return fail(orErrorInvalidValue, "flags must be 0, but is %u", flags);
    }
    const Device* found = runtime.findDevice(peer);
    if (!found) {
      return orErrorInvalidDevice;
    }
    Device& device = runtime.currentDevice();
    if (found == &device) {
      return fail(
          orErrorPeerAccessUnsupported,
          "device %d is the current device and needs no access to itself",
          peer);
    }
    return device.setPeerAccess(*found, true);
  });
}

orError_t orDeviceDisablePeerAccess(int peer) {
  return api("orDeviceDisablePeerAccess", [&](Runtime& runtime) {
    const Device* found = runtime.findDevice(peer);
    if (!found) {
      return orErrorInvalidDevice;
    }
    return runtime.currentDevice().setPeerAccess(*found, false);
  });
}
