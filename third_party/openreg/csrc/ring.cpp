#include "ring.h"

namespace openreg {

bool Ring::hasRoomFor(uint64_t ticket) {
  const uint64_t head = head_.load(std::memory_order_acquire);
  headSeen_.store(head, std::memory_order_release);
  return ticket < head + kCapacity;
}

uint64_t Ring::awaitTask() {
  for (;;) {
    // Threads that run tasks inline move head_ on too: look each time.
    uint64_t head = 0;
    const auto ready = [&] {
      head = head_.load(std::memory_order_acquire);
      return taskReady(head);
    };
    if (os::spinUntil(ready)) {
      return head;
    }
    workerParked_.store(1, std::memory_order_relaxed);
    os::heavyFence();
    if (!ready()) {
      os::parkWhile(workerParked_, 1);
    }
    workerParked_.store(0, std::memory_order_relaxed);
  }
}

void Ring::wakeWorker() {
  workerParked_.store(0, std::memory_order_relaxed);
  os::unparkAll(workerParked_);
}

void Ring::wakeWaiters() {
  wakeAt_.store(kNobody, std::memory_order_relaxed);
  waiterWord_.fetch_add(1, std::memory_order_release);
  os::unparkAll(waiterWord_);
}

bool Ring::waitUntil(uint64_t finished, std::chrono::nanoseconds timeout) {
  const auto done = [&] { return reached(finished); };
  const uint64_t deadline = timeout.count() > 0
      ? os::now() + static_cast<uint64_t>(timeout.count())
      : UINT64_MAX;
  while (!os::spinUntil(done)) {
    // The word is read first: whoever resets wakeAt_ afterwards changes it.
    const uint32_t word = waiterWord_.load(std::memory_order_acquire);
    uint64_t awaited = wakeAt_.load(std::memory_order_relaxed);
    while (finished < awaited &&
           !wakeAt_.compare_exchange_weak(awaited, finished)) {
    }
    os::heavyFence();
    if (done()) {
      break;
    }
    std::chrono::nanoseconds left{0};
    if (timeout.count() > 0) {
      const uint64_t now = os::now();
      if (now >= deadline) {
        return false;
      }
      left = std::chrono::nanoseconds(deadline - now);
    }
    os::parkWhile(waiterWord_, word, left);
  }
  return true;
}

} // namespace openreg
