// The block pool's lock.
#pragma once

#include <atomic>

namespace c10::openreg {

/// A lock for work of some nanoseconds: one atomic operation to take it and
/// none to give it back. A thread that has to wait spins, then yields, then
/// sleeps, so that a holder that lost its core gets one.
///
/// Threads: any.
class PoolLock {
 public:
  void lock() {
    if (!try_lock()) [[unlikely]] {
      lockSlowly();
    }
  }
  bool try_lock() {
    return !locked_.exchange(true, std::memory_order_acquire);
  }
  void unlock() {
    locked_.store(false, std::memory_order_release);
  }

 private:
  void lockSlowly();

  std::atomic<bool> locked_{false};
};

} // namespace c10::openreg
