#include "submit.h"

#include "adversary.h"
#include "device.h"
#include "fault.h"
#include "os.h"
#include "runtime.h"

#include <memory>
#include <string>

namespace openreg {
namespace {

// Only after the wait is queued may another thread rely on it.
void noteOrder(
    std::atomic<uint64_t>& ordered,
    uint64_t before,
    orError_t status) {
  if (status == orSuccess) {
    ordered.store(before, std::memory_order_release);
  }
}

// docs:begin default-stream-order
// CUDA's rule for the default stream: its work waits for earlier work of every
// stream of the device that is not non-blocking, and their work for earlier
// work of the default stream. Each pair of streams remembers how far it is in
// order, so a wait is queued only where there is something new to wait for.
//
// Two threads that submit at once cannot make a cycle: each looks at the other stream
// before it takes its own ticket.
orError_t orderAfterDefault(Stream& stream, Stream& defaultStream) {
  const uint64_t before = defaultStream.submitted();
  if (before <= stream.orderedAfterDefault.load(std::memory_order_acquire)) {
    return orSuccess;
  }
  const orError_t status = submitWait(stream, defaultStream, before);
  noteOrder(stream.orderedAfterDefault, before, status);
  return status;
}

orError_t orderDefaultAfterOthers(Stream& defaultStream, const Device& device) {
  orError_t status = orSuccess;
  runtime().streams.forEach([&](Stream& other) {
    if (status != orSuccess || &other == &defaultStream ||
        other.deviceOrNull() != &device || !other.blocking()) {
      return;
    }
    if (other.capturing()) {
      status = runtime().captures.failOnImplicit(other);
      return;
    }
    const uint64_t before = other.submitted();
    if (before > other.orderedBeforeDefault.load(std::memory_order_acquire)) {
      status = submitWait(defaultStream, other, before);
      noteOrder(other.orderedBeforeDefault, before, status);
    }
  });
  return status;
}

inline orError_t orderWithDefaultStream(Stream& stream) {
  Device& device = stream.device();
  if (&stream != &device.defaultStream()) {
    return orderAfterDefault(stream, device.defaultStream());
  }
  // One is the default stream itself.
  return device.blockingStreams.load(std::memory_order_relaxed) == 1
      ? orSuccess
      : orderDefaultAfterOthers(stream, device);
}
// docs:end default-stream-order

// docs:begin policy
// Somebody has to wait for a kernel that runs in another process: better the stream's
// own thread than the launcher, however small the work is.
bool mayRunInline(const Work& work) {
  const Runtime& state = runtime();
  const bool hasKernels =
      work.info.kind == TaskKind::Kernel || work.info.kind == TaskKind::Graph;
  return work.where != Where::Queue &&
      state.schedule.load(std::memory_order_relaxed) == Schedule::Auto &&
      !(state.config.kernelsElsewhere && hasKernels);
}

orError_t checkNotExiting(const Work& work) {
  return process::exiting.load(std::memory_order_relaxed)
      ? fail(
            orErrorRuntimeUnloading,
            "'%s' was launched while the process is exiting",
            work.info.name)
      : orSuccess;
}

orError_t runOrEnqueue(Stream& stream, const Work& work, uint64_t* finished) {
  if (const orError_t status = checkNotExiting(work); status != orSuccess) {
    return status;
  }
  if (work.where == Where::Here) {
    return stream.runHere(work, finished);
  }
  if (mayRunInline(work) && stream.tryRunInline(work, finished)) {
    return orSuccess;
  }
  if (work.where == Where::Try) {
    return notReady(
        "stream %llu is busy, or the schedule queues all work", stream.id());
  }
  return stream.enqueue(work, finished);
}
// docs:end policy

} // namespace

namespace {

inline orError_t enter(Stream& stream, const Work& work, uint64_t* finished) {
  uint64_t point = 0;
  if (const orError_t status = runOrEnqueue(stream, work, &point);
      status != orSuccess) {
    return status;
  }
  if (finished) {
    *finished = point;
  }
  // A task that launches cannot wait: the work may come after itself.
  if (runtime().config.launchBlocking && !runningStream()) {
    const orError_t status = stream.wait(point);
    return status == orSuccess ? stream.device().checkAfterWait() : status;
  }
  return orSuccess;
}

// docs:begin enter-as-planned
/// Runs in place of work that a fault plan lets fail.
struct FailByPlan {
  std::unique_ptr<const std::string> message;

  void operator()() const {
    failRunningTask(orErrorLaunchFailure, *message);
  }
};

struct Pause {
  std::chrono::nanoseconds duration;

  void operator()() const {
    os::sleepFor(duration);
  }
};

template <class Callable>
orError_t enterInstead(
    Stream& stream,
    Work work,
    Callable callable,
    uint64_t* finished) {
  work.type = &detail::kCallableType<Callable>;
  work.callable = &callable;
  return enter(stream, work, finished);
}

orError_t enterAsPlanned(Stream& stream, const Work& work, uint64_t* finished) {
  if (!faults::concerns(work.info.kind)) {
    return enter(stream, work, finished);
  }
  if (work.where == Where::Try) {
    // The caller then launches it in another way, which asks the plan.
    return notReady(
        "stream %llu tries nothing while a fault plan is in force",
        stream.id());
  }
  const orFault fault = faults::beforeWork(stream.device(), work);
  if (fault.delay != 0) {
    const orError_t status = enterInstead(
        stream,
        {.info = {"pause of a fault plan", TaskKind::HostFunc}},
        Pause{std::chrono::nanoseconds(fault.delay)},
        nullptr);
    if (status != orSuccess) {
      return status;
    }
  }
  if (fault.kind == orFaultLost) {
    return faults::lose(stream.device(), fault);
  }
  return fault.kind == orFaultError
      ? enterInstead(
            stream,
            work,
            FailByPlan{std::make_unique<const std::string>(
                std::string("the fault plan lets '") + work.info.name +
                "' fail (" + fault.rule + ")")},
            finished)
      : enter(stream, work, finished);
}
// docs:end enter-as-planned

} // namespace

orError_t submit(Stream& stream, const Work& work, uint64_t* finished) {
  if (const orError_t status = stream.device().check(); status != orSuccess) {
    return status;
  }
  if (const unsigned state = stream.state(); state != orStreamNonBlocking) {
    if ((state & Stream::kCapturing) != 0) [[unlikely]] {
      return runtime().captures.add(stream, work, finished != nullptr);
    }
    const orError_t status = orderWithDefaultStream(stream);
    if (status != orSuccess) {
      return status;
    }
  }
  if (faults::anyPlanned()) [[unlikely]] {
    return enterAsPlanned(stream, work, finished);
  }
  return enter(stream, work, finished);
}

namespace {

constexpr char kWaitName[] = "wait for an event";

template <class Wait>
orError_t enqueueWait(Stream& stream, Wait wait) {
  const Work work{
      .info = {kWaitName, TaskKind::Wait},
      .type = &detail::kCallableType<Wait>,
      .callable = &wait};
  uint64_t point = 0;
  const orError_t status = checkNotExiting(work);
  return status == orSuccess ? stream.enqueue(work, &point) : status;
}

// A wait that is over is not queued. It takes a number of the adversarial schedule
// all the same: numbers must not depend on how fast the device was.
orError_t skipWait(const Stream& stream) {
  if (Adversary* adversary = runtime().adversary()) {
    adversary->skip(stream, kWaitName);
  }
  return orSuccess;
}

} // namespace

orError_t submitWait(Stream& stream, Stream& other, uint64_t finished) {
  return other.reachedQuietly(finished)
      ? skipWait(stream)
      : enqueueWait(
            stream, [&other, finished] { other.waitInWorker(finished); });
}

orError_t submitWait(Stream& stream, const Event::Record& record) {
  if (!record.foreign()) {
    return record.stream && record.stream != &stream
        ? submitWait(stream, *record.stream, record.finished)
        : orSuccess;
  }
  return record.shared.fateOf(record.number) == ipc::Fate::Done
      ? skipWait(stream)
      : enqueueWait(
            stream, [&stream, state = record.shared, number = record.number] {
              stream.waitForProcess(state, number);
            });
}

orError_t pointAfterAll(Stream& stream, uint64_t* finished) {
  const orError_t status =
      stream.blocking() ? orderWithDefaultStream(stream) : orSuccess;
  *finished = stream.submitted();
  return status;
}

orError_t failOnStream(orStream_t handle) {
  return handle
      ? fail(
            orErrorInvalidHandle,
            "%p is not a live stream; was it destroyed?",
            static_cast<void*>(handle))
      : fail(
            orErrorInvalidHandle,
            "stream must not be NULL; orDeviceGetDefaultStream() gives the "
            "default stream");
}

orError_t failOnEvent(orEvent_t handle) {
  return handle ? fail(
                      orErrorInvalidHandle,
                      "%p is not a live event; was it destroyed?",
                      static_cast<void*>(handle))
                : fail(orErrorInvalidHandle, "event must not be NULL");
}

} // namespace openreg
