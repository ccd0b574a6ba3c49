// A stream: a ring of tasks, the thread that runs them, and who they belong to.
#pragma once

#include "openreg/launch.h"
#include "openreg/stream.h"
#include "ring.h"

#include <atomic>
#include <mutex>
#include <string>

namespace openreg {

class Device;
namespace ipc {
class EventState;
}

/// Where work runs. Idle: on the calling thread if the stream is idle and the
/// schedule allows it, because the work is short, bounded and waits for nothing.
/// Here: on the calling thread, once it is the work's turn. Try: as Idle, or not
/// at all.
enum class Where : uint8_t {
  Queue = orLaunchDefault,
  Idle = orLaunchSmall,
  Here = orLaunchHere,
  Try = orLaunchTry
};

/// What submit() needs to know about a piece of work.
struct Work {
  TaskInfo info;
  const orCallableType* type = nullptr;
  void* callable = nullptr; // moved from when the work is accepted
  Where where = Where::Queue;
  size_t bytes = 0; // of copies and sets
};

/// Threads: any may submit and wait; only its worker runs what was queued.
class Stream {
 public:
  // --- identity: set when the stream is created, then constant ---

  void open(Device& device, unsigned flags, int priority);
  void close();
  bool reusable() const {
    return ring_.idle();
  }

  Device& device() const {
    return *device_.load(std::memory_order_relaxed);
  }
  /// nullptr until the stream was opened for the first time.
  const Device* deviceOrNull() const {
    return device_.load(std::memory_order_acquire);
  }
  bool blocking() const {
    return flags() == orStreamDefault;
  }
  unsigned flags() const {
    return state() & ~kCapturing;
  }
  /// The flags, and whether the stream is capturing: what submit() needs to know,
  /// in one word.
  static constexpr unsigned kCapturing = 1u << 31;
  unsigned state() const {
    return state_.load(std::memory_order_relaxed);
  }
  bool capturing() const {
    return (state() & kCapturing) != 0;
  }
  /// By Captures only, which knows what is captured.
  void setCapturing(bool capturing) {
    state_.store(
        flags() | (capturing ? kCapturing : 0), std::memory_order_relaxed);
  }
  int priority() const {
    return priority_.load(std::memory_order_relaxed);
  }
  unsigned long long id() const {
    return id_.load(std::memory_order_relaxed);
  }

  // --- progress: work is named by how many tasks must have finished ---

  uint64_t unfinished() const {
    return ring_.unfinished();
  }
  uint64_t submitted() const {
    return ring_.submitted();
  }
  /// Asking lets the adversarial schedule run that far, so that a program which
  /// polls comes to an end; reachedQuietly() has no such effect.
  bool reached(uint64_t finished);
  bool reachedQuietly(uint64_t finished) const {
    return ring_.reached(finished);
  }
  bool idle() {
    return reached(submitted());
  }
  /// Names what runs now, for messages.
  void noteRunning(const char* name) {
    runningName_.store(name, std::memory_order_relaxed);
  }
  /// Whether a task runs right now, other than a wait for another stream or
  /// process.
  bool running() const {
    return runningName_.load() && !waitingFor_.load() &&
        !waitingForProcess_.load();
  }

  /// The stream that a task of this one waits for and cannot go on without, or nullptr.
  const Stream* blockedBy() const {
    const Stream* const other = waitingFor_.load();
    return other && !other->reachedQuietly(waitingUntil_.load()) ? other
                                                                 : nullptr;
  }

  /// Waits on behalf of an API call, with its errors but the device's.
  orError_t wait(uint64_t finished);
  /// Waits for as long as it takes.
  void waitForGood(uint64_t finished);
  /// The same as a task of the stream whose worker calls it.
  void waitInWorker(uint64_t finished);
  /// In this stream's worker: waits for a record of another process. If that
  /// process ends before, the running task fails.
  void waitForProcess(const ipc::EventState& state, uint64_t record);

  /// What the stream is doing, for messages.
  std::string describe() const;

  // --- work (worker.cpp); the checks and the policy are in submit.cpp ---

  /// Runs the work on the calling thread, if the stream is idle.
  bool tryRunInline(const Work& work, uint64_t* finished);
  /// Waits until it is, and runs the work on the calling thread.
  orError_t runHere(const Work& work, uint64_t* finished);
  orError_t enqueue(const Work& work, uint64_t* finished);
  /// Starts the worker, unless it runs already.
  orError_t start();

  /// The last tasks of the default stream that this one waits for already, and
  /// of this one that the default stream does.
  std::atomic<uint64_t> orderedAfterDefault{0};
  std::atomic<uint64_t> orderedBeforeDefault{0};

 private:
  friend class Worker;

  orError_t waitForRoom();

  Ring ring_;
  // Read with every launch, so kept apart from what changes with every task.
  std::atomic<Device*> device_{nullptr};
  std::atomic<unsigned> state_{0};
  std::atomic<int> priority_{0};
  std::atomic<unsigned long long> id_{0};
  std::atomic<bool> started_{false}; // whether there is a worker
  std::mutex startMutex_;
  // Written by whoever runs a task.
  alignas(64) std::atomic<const char*> runningName_{nullptr};
  std::atomic<Stream*> waitingFor_{nullptr};
  std::atomic<uint64_t> waitingUntil_{0}; // what it must have reached
  std::atomic<int> waitingForProcess_{0}; // 0: none
};

/// The stream whose task the calling thread is running, or nullptr.
Stream* runningStream();

/// The device on whose behalf the calling thread runs a task, or nullptr.
Device* runningDevice();

/// Whether the calling thread may wait for device work: not inside a task.
orError_t checkMayBlock();

/// Marks the running task as failed. Returns false if the thread runs none.
bool failRunningTask(orError_t error, std::string message);

/// The same for an illegal address that a helper of the running task touched.
void failRunningTaskAt(uintptr_t address);

} // namespace openreg
