#include "event.h"

#include "device.h"
#include "os.h"
#include "runtime.h"
#include "submit.h"

namespace openreg {

std::string describeLoss(const ipc::EventState& state) {
  return "process " + std::to_string(state.recorder()) +
      ", which recorded the event, ended before the work had finished";
}

orError_t Event::Record::query() const {
  if (!foreign()) {
    return !stream || stream->reached(finished)
        ? orSuccess
        : notReady(
              "the work before the event has not finished in stream %llu",
              stream->id());
  }
  switch (shared.fateOf(number)) {
    case ipc::Fate::Done:
      return orSuccess;
    case ipc::Fate::Lost:
      return failWith(orErrorLaunchFailure, describeLoss(shared));
    case ipc::Fate::Pending:
      break;
  }
  return fail(
      orErrorNotReady,
      "the work before the event has not finished in process %d",
      shared.recorder());
}

orError_t Event::Record::wait() const {
  if (!foreign()) {
    return stream ? stream->wait(finished) : orSuccess;
  }
  const auto timeout = runtime().config.waitTimeout;
  const uint64_t deadline = timeout.count() > 0
      ? os::now() + static_cast<uint64_t>(timeout.count())
      : UINT64_MAX;
  const ipc::Fate fate =
      shared.wait(number, deadline, [] { return !process::exiting.load(); });
  if (fate != ipc::Fate::Pending) {
    return query();
  }
  return process::exiting.load()
      ? fail(
            orErrorRuntimeUnloading,
            "the process is exiting, so it waits for no other")
      : fail(
            orErrorTimeout,
            "waited %g s (OPENREG_WAIT_TIMEOUT) for an event that process %d "
            "recorded",
            std::chrono::duration<double>(timeout).count(),
            shared.recorder());
}

void Event::open(
    Device& device,
    unsigned flags,
    ipc::EventState shared,
    bool opened) {
  device_.store(&device, std::memory_order_relaxed);
  timed_.store(flags == orEventEnableTiming, std::memory_order_relaxed);
  interprocess_.store(flags == orEventInterprocess, std::memory_order_relaxed);
  opened_.store(opened, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  latest_ = {};
  latest_.shared = std::move(shared);
}

void Event::close() {
  std::lock_guard lock(mutex_);
  latest_ = {};
}

ipc::EventState Event::shared() const {
  if (!interprocess_.load(std::memory_order_relaxed)) {
    return {};
  }
  std::lock_guard lock(mutex_);
  return latest_.shared;
}

// A record of another process may have come after the latest of this one.
Event::Record Event::latest() const {
  std::lock_guard lock(mutex_);
  if (!latest_.shared) {
    return latest_;
  }
  const uint64_t number = latest_.shared.latest();
  return number == latest_.number
      ? latest_
      : Record{.shared = latest_.shared, .number = number};
}

orError_t Event::record(Stream& stream) {
  if (stream.capturing()) {
    std::shared_ptr<const CapturedPoint> point;
    const orError_t status = runtime().captures.point(stream, &point);
    if (status == orSuccess) {
      std::lock_guard lock(mutex_);
      latest_.captured = std::move(point);
    }
    return status;
  }
  if (interprocess_.load(std::memory_order_relaxed)) {
    return recordShared(stream);
  }
  Record record{.stream = &stream};
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

// Locked throughout: a record is seen together with its stream, which must not be
// made to wait for it.
orError_t Event::recordShared(Stream& stream) {
  if (const orError_t status = stream.device().check(); status != orSuccess) {
    return status;
  }
  std::lock_guard lock(mutex_);
  if (!latest_.shared) {
    return fail(orErrorInvalidHandle, "the event is being destroyed");
  }
  Record record{
      .stream = &stream,
      .shared = latest_.shared,
      .number = latest_.shared.begin()};
  const orError_t status = submitCallable(
      stream,
      {.info = {"record an event", TaskKind::Timestamp}, .where = Where::Idle},
      [state = record.shared, number = record.number] { state.finish(number); },
      &record.finished);
  if (status == orSuccess) {
    latest_ = std::move(record);
  } else {
    record.shared.finish(record.number); // nothing to wait for
  }
  return status;
}

Event::Record Event::prepare(Stream& stream) {
  Record record{.stream = &stream, .shared = shared()};
  if (record.shared) {
    record.number = record.shared.begin();
  } else if (timed()) {
    record.time = std::make_shared<std::atomic<uint64_t>>(0);
  }
  return record;
}

void Event::stamp(const Record& record) {
  if (record.time) {
    record.time->store(os::now());
  }
  if (record.shared) {
    record.shared.finish(record.number);
  }
}

void Event::publish(const Record& record) {
  std::lock_guard lock(mutex_);
  latest_ = record;
}

orError_t failOnTooManyEvents() {
  return fail(
      orErrorMemoryAllocation,
      "too many events are alive; destroy some with orEventDestroy()");
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
  if (record.captured) {
    return runtime().captures.checkEvent(record.captured.get(), which);
  }
  if (!record.stream) {
    return fail(orErrorInvalidHandle, "the %s event was not recorded", which);
  }
  if (!record.stream->reached(record.finished)) {
    return fail(
        orErrorNotReady,
        "the work before the %s event has not finished in stream %llu",
        which,
        record.stream->id());
  }
  *time = record.time->load();
  return orSuccess;
}

orError_t createEvent(const char* name, orEvent_t* event, unsigned int flags) {
  return api(name, [&](Runtime& runtime) {
    if (!event) {
      return fail(orErrorInvalidValue, "event must not be NULL");
    }
    if (flags != orEventDisableTiming && flags != orEventEnableTiming &&
        flags != orEventInterprocess) {
      return fail(
          orErrorInvalidValue,
          "flags must be orEventDisableTiming (0), orEventEnableTiming (1) or "
          "orEventInterprocess (4), but is %u",
          flags);
    }
    Device& device = runtime.currentDevice();
    if (const orError_t status = device.check(); status != orSuccess) {
      return status;
    }
    ipc::EventState shared;
    if (flags == orEventInterprocess) {
      auto object = runtime.shared.create([](ipc::Shared&) {});
      if (!object) {
        return failOnTooManyEvents();
      }
      shared = ipc::EventState(std::move(object));
    }
    const orEvent_t created = runtime.events.create(
        [&](Event& opened) { opened.open(device, flags, shared); });
    if (!created) {
      return failOnTooManyEvents();
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
    return runtime.events.destroy(event, [](Event& closed) { closed.close(); })
        ? orSuccess
        : failOnEvent(event);
  });
}

namespace {

orError_t recordEvent(
    const char* name,
    orEvent_t event,
    orStream_t stream,
    unsigned int flags) {
  return eventApi(name, event, [&](Event& found) {
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
    if (flags > orEventRecordExternal) {
      return fail(
          orErrorInvalidValue,
          "flags must be orEventRecordDefault (0) or orEventRecordExternal "
          "(1), "
          "but is %u",
          flags);
    }
    return flags == orEventRecordExternal
        ? captureEventNode(*where, orGraphNodeTypeEventRecord, event)
        : found.record(*where);
  });
}

} // namespace

orError_t orEventRecord(orEvent_t event, orStream_t stream) {
  return recordEvent("orEventRecord", event, stream, orEventRecordDefault);
}

orError_t orEventRecordWithFlags(
    orEvent_t event,
    orStream_t stream,
    unsigned int flags) {
  return recordEvent("orEventRecordWithFlags", event, stream, flags);
}

orError_t orEventQuery(orEvent_t event) {
  return eventApi("orEventQuery", event, [](Event& found) {
    const Event::Record record = found.latest();
    const orError_t status = runtime().captures.checkEvent(
        record.captured.get(), "a query of an event");
    return status == orSuccess ? record.query() : status;
  });
}

orError_t orEventSynchronize(orEvent_t event) {
  return eventApi("orEventSynchronize", event, [](Event& found) {
    orError_t status = checkMayBlock();
    const Event::Record record = found.latest();
    if (status == orSuccess) {
      status = runtime().captures.checkEvent(
          record.captured.get(), "a wait for an event");
    }
    if (status != orSuccess || (!record.stream && !record.foreign())) {
      return status;
    }
    status = record.wait();
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
