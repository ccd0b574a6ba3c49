#include "event.h"

#include "device.h"
#include "os.h"
#include "runtime.h"
#include "submit.h"

namespace openreg {

bool Event::Record::done() const {
  return !stream || stream->reached(finished);
}

void Event::open(Device& device, unsigned flags) {
  device_.store(&device, std::memory_order_relaxed);
  timed_.store(flags == orEventEnableTiming, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  latest_ = {};
}

Event::Record Event::latest() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

orError_t Event::record(Stream& stream) {
  Record record{&stream, 0, nullptr};
  orError_t status = orSuccess;
  if (timed()) {
    record.time = std::make_shared<std::atomic<uint64_t>>(0);
    status = submitCallable(
        stream,
        {.info = {"record an event", TaskKind::Timestamp},
         .where = Where::Idle},
        [time = record.time] { time->store(os::now()); },
        &record.finished);
  } else if (status = stream.device().check(); status == orSuccess) {
    status = pointAfterAll(stream, &record.finished);
  }
  if (status == orSuccess) {
    std::lock_guard lock(mutex_);
    latest_ = std::move(record);
  }
  return status;
}

} // namespace openreg

using namespace openreg;

namespace {

/// Calls `body(event)` with the event that a handle names.
template <class Body>
orError_t eventApi(const char* name, orEvent_t handle, Body body) {
  return api(name, [&](Runtime& runtime) {
    Event* event = runtime.events.find(handle);
    return event ? body(*event) : failOnEvent(handle);
  });
}

// Whether an event can be timed, and when it happened.
orError_t timeOf(const Event& event, const char* which, uint64_t* time) {
  if (!event.timed()) {
    return fail(
        orErrorInvalidHandle,
        "the %s event was created without orEventEnableTiming",
        which);
  }
  const Event::Record record = event.latest();
  if (!record.stream) {
    return fail(orErrorInvalidHandle, "the %s event was not recorded", which);
  }
  if (!record.done()) {
    return fail(
        orErrorNotReady,
        "the work before the %s event has not finished in stream %llu",
        which,
        record.stream->id());
  }
  *time = record.time->load();
  return orSuccess;
}

} // namespace

namespace {

orError_t createEvent(const char* name, orEvent_t* event, unsigned int flags) {
  return api(name, [&](Runtime& runtime) {
    if (!event) {
      return fail(orErrorInvalidValue, "event must not be NULL");
    }
    if (flags != orEventDisableTiming && flags != orEventEnableTiming) {
      return fail(
          orErrorInvalidValue,
          "flags must be orEventDisableTiming (0) or orEventEnableTiming (1), "
          "but is %u",
          flags);
    }
    Device& device = runtime.currentDevice();
    if (const orError_t status = device.check(); status != orSuccess) {
      return status;
    }
    const orEvent_t created = runtime.events.create(
        [&](Event& opened) { opened.open(device, flags); });
    if (!created) {
      return fail(
          orErrorMemoryAllocation,
          "too many events are alive; destroy some with orEventDestroy()");
    }
    *event = created;
    return orSuccess;
  });
}

} // namespace

orError_t orEventCreateWithFlags(orEvent_t* event, unsigned int flags) {
  return createEvent("orEventCreateWithFlags", event, flags);
}

orError_t orEventCreate(orEvent_t* event) {
  return createEvent("orEventCreate", event, orEventEnableTiming);
}

orError_t orEventDestroy(orEvent_t event) {
  return api("orEventDestroy", [&](Runtime& runtime) {
    return runtime.events.destroy(event, [](Event&) {}) ? orSuccess
                                                        : failOnEvent(event);
  });
}

orError_t orEventRecord(orEvent_t event, orStream_t stream) {
  return eventApi("orEventRecord", event, [&](Event& found) {
    Stream* where = runtime().streams.find(stream);
    if (!where) {
      return failOnStream(stream);
    }
    if (&where->device() != &found.device()) {
      return fail(
          orErrorInvalidHandle,
          "the event belongs to device %d, but stream %llu to device %d",
          found.device().index(),
          where->id(),
          where->device().index());
    }
    return found.record(*where);
  });
}

orError_t orEventQuery(orEvent_t event) {
  return eventApi("orEventQuery", event, [](Event& found) {
    const Event::Record record = found.latest();
    return record.done() ? orSuccess
                         : fail(
                               orErrorNotReady,
                               "the work before the event has not finished in "
                               "stream %llu",
                               record.stream->id());
  });
}

orError_t orEventSynchronize(orEvent_t event) {
  return eventApi("orEventSynchronize", event, [](Event& found) {
    orError_t status = checkMayBlock();
    const Event::Record record = found.latest();
    if (status != orSuccess || !record.stream) {
      return status;
    }
    status = record.stream->wait(record.finished);
    return status == orSuccess ? found.device().checkAfterWait() : status;
  });
}

orError_t orEventElapsedTime(
    float* milliseconds,
    orEvent_t start,
    orEvent_t end) {
  return eventApi("orEventElapsedTime", start, [&](Event& first) {
    const Event* last = runtime().events.find(end);
    if (!last) {
      return failOnEvent(end);
    }
    if (!milliseconds) {
      return fail(orErrorInvalidValue, "milliseconds must not be NULL");
    }
    if (&first.device() != &last->device()) {
      return fail(
          orErrorInvalidHandle,
          "the events belong to different devices, %d and %d",
          first.device().index(),
          last->device().index());
    }
    uint64_t from = 0, to = 0;
    orError_t status = timeOf(first, "start", &from);
    if (status == orSuccess) {
      status = timeOf(*last, "end", &to);
    }
    if (status == orSuccess) {
      *milliseconds =
          static_cast<float>(static_cast<int64_t>(to - from)) * 1e-6f;
    }
    return status;
  });
}
