#include "stream.h"

#include "adversary.h"
#include "device.h"
#include "os.h"
#include "runtime.h"
#include "submit.h"

#include <algorithm>

namespace openreg {
namespace {

std::atomic<unsigned long long> lastStreamId{0};

} // namespace

void Stream::open(Device& device, unsigned flags, int priority) {
  state_.store(flags, std::memory_order_relaxed);
  priority_.store(priority, std::memory_order_relaxed);
  id_.store(++lastStreamId, std::memory_order_relaxed);
  orderedAfterDefault.store(0, std::memory_order_relaxed);
  orderedBeforeDefault.store(ring_.submitted(), std::memory_order_relaxed);
  device_.store(&device, std::memory_order_release);
  if (flags == orStreamDefault) {
    ++device.blockingStreams;
  }
  if (priority != 0) {
    ++device.prioritizedStreams;
  }
}

void Stream::close() {
  if (blocking()) {
    --device().blockingStreams;
  }
  if (priority() != 0) {
    --device().prioritizedStreams;
  }
}

bool Stream::reached(uint64_t finished) {
  if (ring_.reached(finished)) {
    return true;
  }
  if (Adversary* adversary = runtime().adversary()) {
    adversary->force({{this, finished}});
  }
  return false;
}

orError_t checkMayBlock() {
  const Stream* inside = runningStream();
  return inside
      ? fail(
            orErrorNotPermitted,
            "a kernel or host function, here one of stream %llu, may not wait "
            "for device work",
            inside->id())
      : orSuccess;
}

orError_t Stream::wait(uint64_t finished) {
  if (reached(finished)) {
    return orSuccess;
  }
  if (process::exiting.load()) {
    return fail(
        orErrorRuntimeUnloading,
        "the process is exiting, so the work of stream %llu was abandoned",
        id());
  }
  const WaitingThread waiting;
  const uint64_t start = activity::enabled(orActivitySync) ? os::now() : 0;
  const auto timeout = runtime().config.waitTimeout;
  if (!ring_.waitUntil(finished, timeout)) {
    return fail(
        orErrorTimeout,
        "waited %g s (OPENREG_WAIT_TIMEOUT) for stream %llu: %s",
        std::chrono::duration<double>(timeout).count(),
        id(),
        describe().c_str());
  }
  if (start != 0) {
    const auto [correlation, external] = activity::currentCorrelation();
    activity::record({
        .kind = orActivitySync,
        .name = "synchronize",
        .device = device().index(),
        .stream = id(),
        .start = start,
        .end = os::now(),
        .correlation = correlation,
        .externalCorrelation = external,
    });
  }
  return orSuccess;
}

void Stream::waitInWorker(uint64_t finished) {
  Stream* const waiting = runningStream();
  waiting->waitingUntil_.store(finished);
  waiting->waitingFor_.store(this);
  waitForGood(finished);
  waiting->waitingFor_.store(nullptr);
}

void Stream::waitForProcess(const ipc::EventState& state, uint64_t record) {
  waitingForProcess_.store(state.recorder());
  // A broken device waits for nobody.
  const ipc::Fate fate =
      state.wait(record, UINT64_MAX, [this] { return !device().dropsWork(); });
  if (fate == ipc::Fate::Lost) {
    failRunningTask(orErrorLaunchFailure, describeLoss(state));
  }
  waitingForProcess_.store(0);
}

void Stream::waitForGood(uint64_t finished) {
  if (!reached(finished)) {
    ring_.waitUntil(finished, {});
  }
}

std::string Stream::describe() const {
  if (const Stream* other = waitingFor_.load()) {
    return "it waits for an event of stream " + std::to_string(other->id()) +
        " of device " + std::to_string(other->device().index()) + ", where " +
        other->describe();
  }
  if (const int process = waitingForProcess_.load()) {
    return "it waits for an event of process " + std::to_string(process);
  }
  const char* name = runningName_.load();
  return name ? "it is running '" + std::string(name) + "'"
              : "its next task has not started";
}

} // namespace openreg

using namespace openreg;

namespace {

/// Calls `body(stream)` with the stream that a handle names.
template <class Body>
orError_t streamApi(const char* name, orStream_t handle, Body body) {
  return api(name, [&](Runtime& runtime) {
    Stream* stream = runtime.streams.find(handle);
    return stream ? body(*stream) : failOnStream(handle);
  });
}

} // namespace

orError_t orDeviceGetStreamPriorityRange(
    int* leastPriority,
    int* greatestPriority) {
  return api("orDeviceGetStreamPriorityRange", [&](Runtime&) {
    if (leastPriority) {
      *leastPriority = kLeastPriority;
    }
    if (greatestPriority) {
      *greatestPriority = kGreatestPriority;
    }
    return orSuccess;
  });
}

orError_t orDeviceGetDefaultStream(orStream_t* stream, int device) {
  return api("orDeviceGetDefaultStream", [&](Runtime& runtime) {
    if (!stream) {
      return fail(orErrorInvalidValue, "stream must not be NULL");
    }
    const Device* found = runtime.findDevice(device);
    if (!found) {
      return orErrorInvalidDevice;
    }
    *stream = found->defaultStreamHandle();
    return orSuccess;
  });
}

namespace {

orError_t createStream(
    const char* name,
    orStream_t* stream,
    unsigned int flags,
    int priority) {
  return api(name, [&](Runtime& runtime) {
    if (!stream) {
      return fail(orErrorInvalidValue, "stream must not be NULL");
    }
    if (flags != orStreamDefault && flags != orStreamNonBlocking) {
      return fail(
          orErrorInvalidValue,
          "flags must be orStreamDefault (0) or orStreamNonBlocking (1), but "
          "is %u",
          flags);
    }
    Device& device = runtime.currentDevice();
    if (const orError_t status = device.check(); status != orSuccess) {
      return status;
    }
    const int clamped = std::clamp(priority, kGreatestPriority, kLeastPriority);
    const orStream_t created = runtime.streams.create(
        [&](Stream& opened) { opened.open(device, flags, clamped); });
    if (!created) {
      return fail(
          orErrorMemoryAllocation,
          "too many streams are alive; destroy some with orStreamDestroy()");
    }
    *stream = created;
    return orSuccess;
  });
}

} // namespace

orError_t orStreamCreateWithPriority(
    orStream_t* stream,
    unsigned int flags,
    int priority) {
  return createStream("orStreamCreateWithPriority", stream, flags, priority);
}

orError_t orStreamCreateWithFlags(orStream_t* stream, unsigned int flags) {
  return createStream("orStreamCreateWithFlags", stream, flags, 0);
}

orError_t orStreamCreate(orStream_t* stream) {
  return createStream("orStreamCreate", stream, orStreamDefault, 0);
}

orError_t orStreamDestroy(orStream_t stream) {
  return streamApi("orStreamDestroy", stream, [&](Stream& found) {
    if (stream == found.device().defaultStreamHandle()) {
      return fail(
          orErrorInvalidHandle,
          "stream %llu is the default stream of device %d, which cannot be "
          "destroyed",
          found.id(),
          found.device().index());
    }
    // What the capture recorded is destroyed at the end, without locks.
    std::shared_ptr<Capture> capture;
    return runtime().streams.destroy(
               stream,
               [&](Stream& closed) {
                 capture = runtime().captures.leave(closed);
                 closed.close();
               })
        ? orSuccess
        : failOnStream(stream);
  });
}

orError_t orStreamQuery(orStream_t stream) {
  return streamApi("orStreamQuery", stream, [](Stream& found) {
    orError_t status = found.device().check();
    uint64_t finished = 0;
    if (status == orSuccess) {
      status = runtime().captures.checkStream(found);
    }
    if (status == orSuccess) {
      status = pointAfterAll(found, &finished);
    }
    if (status != orSuccess) {
      return status;
    }
    return found.reached(finished)
        ? found.device().checkAfterWait()
        : notReady("stream %llu has unfinished work", found.id());
  });
}

orError_t orStreamSynchronize(orStream_t stream) {
  return streamApi("orStreamSynchronize", stream, [](Stream& found) {
    orError_t status = checkMayBlock();
    if (status == orSuccess) {
      status = runtime().captures.checkStream(found);
    }
    uint64_t finished = 0;
    if (status == orSuccess) {
      status = pointAfterAll(found, &finished);
    }
    if (status == orSuccess) {
      status = found.wait(finished);
    }
    return status == orSuccess ? found.device().checkAfterWait() : status;
  });
}

orError_t orStreamWaitEvent(
    orStream_t stream,
    orEvent_t event,
    unsigned int flags) {
  return streamApi("orStreamWaitEvent", stream, [&](Stream& found) {
    const Event* awaited = runtime().events.find(event);
    if (!awaited) {
      return failOnEvent(event);
    }
    if (flags > orEventWaitExternal) {
      return fail(
          orErrorInvalidValue,
          "flags must be orEventWaitDefault (0) or orEventWaitExternal (1), "
          "but "
          "is %u",
          flags);
    }
    if (const orError_t status = found.device().check(); status != orSuccess) {
      return status;
    }
    if (flags == orEventWaitExternal) {
      return captureEventNode(found, orGraphNodeTypeWaitEvent, event);
    }
    const Event::Record record = awaited->latest();
    if (!found.capturing() && !record.captured) {
      return submitWait(found, record);
    }
    return record.made() ? runtime().captures.join(found, record.captured.get())
                         : orSuccess;
  });
}

namespace {

template <class T, class Read>
orError_t readProperty(
    const char* name,
    orStream_t stream,
    T* result,
    Read read) {
  return streamApi(name, stream, [&](Stream& found) {
    if (!result) {
      return fail(
          orErrorInvalidValue,
          "the result of %s must not be written to NULL",
          name);
    }
    *result = read(found);
    return orSuccess;
  });
}

} // namespace

orError_t orStreamGetPriority(orStream_t stream, int* priority) {
  return readProperty(
      "orStreamGetPriority", stream, priority, [](const Stream& found) {
        return found.priority();
      });
}

orError_t orStreamGetFlags(orStream_t stream, unsigned int* flags) {
  return readProperty(
      "orStreamGetFlags", stream, flags, [](const Stream& found) {
        return found.flags();
      });
}

orError_t orStreamGetDevice(orStream_t stream, int* device) {
  return readProperty(
      "orStreamGetDevice", stream, device, [](const Stream& found) {
        return found.device().index();
      });
}

orError_t orStreamGetId(orStream_t stream, unsigned long long* id) {
  return readProperty("orStreamGetId", stream, id, [](const Stream& found) {
    return found.id();
  });
}
