#include "runtime/pool/PoolLock.h"

#include <chrono>
#include <thread>

namespace c10::openreg {

void PoolLock::lockSlowly() {
  constexpr int kSpins = 100, kYields = 200;
  for (int tries = 0;; ++tries) {
    if (!locked_.load(std::memory_order_relaxed) && try_lock()) {
      return;
    }
    if (tries < kSpins) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (tries < kSpins + kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

} // namespace c10::openreg
