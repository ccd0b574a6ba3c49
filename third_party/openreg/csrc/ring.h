// The queue of one stream: many producers, tasks in order, the callable inside
// the slot.
//
// docs:begin tickets
// Every task has a ticket. The task whose ticket equals `finished` is the one
// that may run, and only its owner moves `finished` on. Two parties own tasks:
// the worker owns those that were published, and a thread that claimed a ticket
// while the ring was idle owns that one and runs it itself ("inline"). So the
// ticket is the stream's execution right, and no lock is needed to keep order.
// docs:end tickets
#pragma once

#include "openreg/activity.h"
#include "openreg/launch.h"
#include "os.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace openreg {

enum class TaskKind : uint8_t {
  Kernel,
  Copy,
  Set,
  HostFunc,
  Wait,
  Timestamp,
  Graph
};

/// What records and messages say of a task.
struct TaskInfo {
  const char* name; // a literal
  TaskKind kind;
  bool traced = false; // whether the task's TaskTrace is filled in
  orMemcpyKind copyKind = orMemcpyDefault;
};

/// What only tracing and the adversarial schedule need to know of a task; not
/// initialised, because most tasks have none.
struct TaskTrace {
  uint64_t correlation;
  uint64_t externalCorrelation;
  uint64_t order; // how many tasks the process had submitted before
  size_t bytes;
};

// docs:begin slot
struct alignas(64) Slot {
  std::atomic<uint64_t> published{0}; // ticket + 1
  const orCallableType* type;
  TaskInfo info;
  // A small callable ends with the first cache line.
  alignas(void*) std::byte callable[OPENREG_CALLABLE_BYTES];
  TaskTrace trace;
};
static_assert(sizeof(Slot) == 128);
// docs:end slot

/// Threads: any may claim tickets and wait; only the worker takes what was published.
class Ring {
 public:
  static constexpr uint64_t kCapacity =
      1024; // as many as a GPU was seen to take

  /// Number of tickets given out, and of tasks that have run.
  uint64_t submitted() const {
    return tail_.load(std::memory_order_acquire);
  }
  bool reached(uint64_t finished) const {
    return head_.load(std::memory_order_acquire) >= finished;
  }
  bool idle() const {
    return reached(submitted());
  }
  uint64_t unfinished() const {
    const uint64_t finished = head_.load(std::memory_order_acquire);
    return submitted() - finished; // in this order never below 0
  }

  /// Makes the slots; to be called before the first tryClaim().
  void allocate() {
    owned_ = std::make_unique<Slot[]>(kCapacity);
    slots_.store(owned_.get(), std::memory_order_release);
  }

  /// Takes the next ticket, for a task to be published. Fails if the ring is
  /// full.
  bool tryClaim(uint64_t* ticket) {
    uint64_t next = tail_.load(std::memory_order_relaxed);
    do {
      if (next >= headSeen_.load(std::memory_order_acquire) + kCapacity &&
          !hasRoomFor(next)) {
        return false;
      }
    } while (!tail_.compare_exchange_weak(
        next, next + 1, std::memory_order_acq_rel, std::memory_order_relaxed));
    *ticket = next;
    return true;
  }

  /// Takes the next ticket, for a task that the caller runs at once. Fails unless
  /// everything before has run.
  bool tryClaimIdle(uint64_t* ticket) {
    uint64_t next = tail_.load(std::memory_order_relaxed);
    *ticket = next;
    return head_.load(std::memory_order_acquire) == next &&
        tail_.compare_exchange_strong(
            next,
            next + 1,
            std::memory_order_acq_rel,
            std::memory_order_relaxed);
  }

  /// The place of a claimed or published task.
  Slot& slot(uint64_t ticket) const {
    return slots_.load(std::memory_order_acquire)[ticket % kCapacity];
  }

  /// Hands a claimed and filled slot to the worker.
  void publish(uint64_t ticket) {
    slot(ticket).published.store(ticket + 1, std::memory_order_release);
    os::lightFence();
    if (workerParked_.load(std::memory_order_relaxed)) {
      wakeWorker();
    }
  }

  /// The worker's next task: returns when it is published.
  uint64_t awaitTask();

  /// Says that the task has run, whoever ran it.
  void finish(uint64_t ticket) {
    const uint64_t head = ticket + 1;
    head_.store(head, std::memory_order_release);
    os::lightFence();
    if (head >= wakeAt_.load(std::memory_order_relaxed)) {
      wakeWaiters();
    }
    // After an inline task the worker may have to go on with what came meanwhile.
    if (workerParked_.load(std::memory_order_relaxed) &&
        tail_.load(std::memory_order_relaxed) != head && taskReady(head)) {
      wakeWorker();
    }
  }

  /// Waits until `finished` tasks have run. Returns false after `timeout`,
  /// unless that is 0.
  bool waitUntil(uint64_t finished, std::chrono::nanoseconds timeout);

 private:
  bool taskReady(uint64_t head) const {
    return slot(head).published.load(std::memory_order_acquire) == head + 1;
  }
  bool hasRoomFor(uint64_t ticket);
  void wakeWorker();
  void wakeWaiters();

  static constexpr uint64_t kNobody = UINT64_MAX;

  std::unique_ptr<Slot[]> owned_;
  std::atomic<Slot*> slots_{nullptr};
  // Written by producers.
  alignas(64) std::atomic<uint64_t> tail_{0};
  std::atomic<uint64_t> headSeen_{0}; // a lower bound of head_, to spare a look
  // Written by whoever runs tasks.
  alignas(64) std::atomic<uint64_t> head_{0};
  // Written by threads that go to sleep.
  alignas(64) std::atomic<uint64_t> wakeAt_{kNobody}; // smallest head awaited
  std::atomic<uint32_t> waiterWord_{0};
  std::atomic<uint32_t> workerParked_{0};
};

} // namespace openreg
