// Running tasks: on the worker thread of their stream, or inline on the thread
// that launched them.
#include "adversary.h"
#include "device.h"
#include "os.h"
#include "running_task.h"
#include "runtime.h"
#include "stream.h"

#include <cstring>
#include <utility>

namespace openreg {
namespace {

TaskTrace traceOf(
    const Work& work,
    const Stream& stream,
    Adversary* adversary) {
  const auto [id, external] = activity::currentCorrelation();
  return {
      .correlation = id,
      .externalCorrelation = external,
      .order = adversary ? adversary->number(stream, work.info.name) : 0,
      .bytes = work.bytes,
  };
}

} // namespace

// --- inline -------------------------------------------------------------------

bool Stream::tryRunInline(const Work& work, uint64_t* finished) {
  uint64_t ticket = 0;
  if (!ring_.tryClaimIdle(&ticket)) {
    return false;
  }
  RunningTask task{*this, &work.info};
  TaskTrace trace;
  if (activity::anyEnabled()) [[unlikely]] {
    trace = traceOf(work, *this, nullptr);
    beginTrace(task, trace);
  }
  RunningTask* const outer = std::exchange(runningTask, &task);
  runningName_.store(work.info.name, std::memory_order_relaxed);
  struct Context {
    const Work& work;
    RunningTask& task;
  } context{work, task};
  uintptr_t fault = 0;
  if (!os::runGuarded(
          [](void* raw) {
            const auto& [current, self] = *static_cast<Context*>(raw);
            call(*current.type, current.callable, self);
          },
          [](void* raw, uintptr_t address) {
            return survivesFault(static_cast<Context*>(raw)->task, address);
          },
          &context,
          &fault)) {
    noteFault(task, fault);
  }
  settle(task);
  runningName_.store(nullptr, std::memory_order_relaxed);
  runningTask = outer;
  ring_.finish(ticket);
  *finished = ticket + 1;
  return true;
}

orError_t Stream::runHere(const Work& work, uint64_t* finished) {
  orError_t status = checkMayBlock();
  // Another thread's work may slip in between the wait and the claim.
  while (status == orSuccess && !tryRunInline(work, finished)) {
    status = wait(submitted());
    if (status == orSuccess) {
      status = device().check();
    }
  }
  return status;
}

// --- queued -------------------------------------------------------------------

orError_t Stream::enqueue(const Work& work, uint64_t* finished) {
  if (!started_.load(std::memory_order_acquire)) [[unlikely]] {
    if (const orError_t status = start(); status != orSuccess) {
      return status;
    }
  }
  uint64_t ticket = 0;
  while (!ring_.tryClaim(&ticket)) {
    if (const orError_t status = waitForRoom(); status != orSuccess) {
      return status;
    }
  }
  Slot& slot = ring_.slot(ticket);
  slot.type = work.type;
  slot.info = work.info;
  if (work.type->move) {
    work.type->move(slot.callable, work.callable);
  } else {
    std::memcpy(slot.callable, work.callable, work.type->size);
  }
  Adversary* const adversary = runtime().adversary();
  slot.info.traced = activity::anyEnabled() || adversary;
  if (slot.info.traced) [[unlikely]] {
    slot.trace = traceOf(work, *this, adversary);
  }
  ring_.publish(ticket);
  *finished = ticket + 1;
  return orSuccess;
}

orError_t Stream::waitForRoom() {
  if (runningStream() == this) {
    return fail(
        orErrorNotPermitted,
        "a kernel or host function of stream %llu may not queue work there "
        "while its queue of %llu tasks is full",
        id(),
        static_cast<unsigned long long>(Ring::kCapacity));
  }
  // Half of it: to wake a launching thread for every task would cost more.
  const uint64_t half = submitted() - Ring::kCapacity / 2;
  reached(half);
  const WaitingThread waiting;
  const auto timeout = runtime().config.waitTimeout;
  if (!ring_.waitUntil(half, timeout)) {
    return fail(
        orErrorTimeout,
        "the queue of stream %llu stayed full for %g s "
        "(OPENREG_WAIT_TIMEOUT): %s",
        id(),
        std::chrono::duration<double>(timeout).count(),
        describe().c_str());
  }
  return orSuccess;
}

/// The thread that runs the published tasks of one stream, in order, until the
/// process ends.
class Worker {
 public:
  explicit Worker(Stream& stream) : stream_(stream), task_{stream} {}

  [[noreturn]] void run() {
    runningTask = &task_;
    for (;;) {
      // One guard serves many tasks: serve() returns only through a fault.
      uintptr_t fault = 0;
      os::runGuarded(
          [](void* worker) { static_cast<Worker*>(worker)->serve(); },
          [](void* worker, uintptr_t address) {
            return survivesFault(static_cast<Worker*>(worker)->task_, address);
          },
          this,
          &fault);
      noteFault(task_, fault);
      end();
    }
  }

 private:
  [[noreturn]] void serve() {
    for (;;) {
      ticket_ = stream_.ring_.awaitTask();
      slot_ = &stream_.ring_.slot(ticket_);
      awaitTurn();
      if (outlivesFailure(slot_->info.kind) || !stream_.device().dropsWork()) {
        begin();
        call(*slot_->type, slot_->callable, task_);
      }
      end();
    }
  }

  void awaitTurn() {
    // A task that was queued under another schedule has no number.
    adversary_ = slot_->info.traced ? runtime().adversary() : nullptr;
    if (adversary_) {
      gated_ = false;
      adversary_->awaitTurn(stream_, ticket_, *slot_);
      return;
    }
    gated_ = slot_->info.kind != TaskKind::Wait &&
        stream_.device().prioritizedStreams.load(std::memory_order_relaxed) > 0;
    if (gated_) {
      stream_.device().gate().enter(stream_.priority());
    }
  }

  void begin() {
    stream_.runningName_.store(slot_->info.name, std::memory_order_relaxed);
    os::lightFence();
    if (process::exiting.load(std::memory_order_relaxed)) [[unlikely]] {
      stream_.runningName_.store(nullptr);
      os::sleepForever();
    }
    task_.info = &slot_->info;
    if (slot_->info.traced) [[unlikely]] {
      beginTrace(task_, slot_->trace);
    }
  }

  void end() {
    settle(task_);
    task_.info = nullptr;
    task_.trace = nullptr;
    task_.node = nullptr;
    if (slot_->type->destroy) {
      slot_->type->destroy(slot_->callable);
    }
    stream_.runningName_.store(nullptr, std::memory_order_relaxed);
    if (gated_) {
      stream_.device().gate().leave();
    }
    stream_.ring_.finish(ticket_);
    if (adversary_) {
      adversary_->endTurn(stream_);
    }
  }

  Stream& stream_;
  Adversary* adversary_ = nullptr; // whose turn the task has
  RunningTask task_; // what runningTask points to, on this thread
  Slot* slot_ = nullptr;
  uint64_t ticket_ = 0;
  bool gated_ = false;
};

orError_t Stream::start() {
  std::lock_guard lock(startMutex_);
  if (started_.load(std::memory_order_relaxed)) {
    return orSuccess;
  }
  process::markUsed();
  device().active.store(true, std::memory_order_relaxed);
  ring_.allocate();
  const auto entry = [](void* stream) {
    Worker(*static_cast<Stream*>(stream)).run();
  };
  if (!os::startThread("openreg stream", entry, this)) {
    return fail(
        orErrorMemoryAllocation,
        "the system refused to start the thread that stream %llu needs",
        id());
  }
  started_.store(true, std::memory_order_release);
  return orSuccess;
}

} // namespace openreg
