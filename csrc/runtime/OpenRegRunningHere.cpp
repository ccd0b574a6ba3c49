#include "runtime/OpenRegRunningHere.h"

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

namespace c10::openreg {
namespace {

/// What a thread runs.
struct Slot {
  std::atomic<orStream_t> stream{nullptr};
};

constexpr size_t kSlots = 256;

/// The slots of all threads; those of threads that ended are used again.
struct Slots {
  std::array<Slot, kSlots> all;
  std::atomic<size_t> used{0};
  std::mutex mutex;
  std::vector<Slot*> free;

  /// nullptr if there are too many threads.
  Slot* take() {
    const std::lock_guard lock(mutex);
    if (!free.empty()) {
      Slot* slot = free.back();
      free.pop_back();
      return slot;
    }
    const size_t place = used.load();
    if (place == kSlots) {
      return nullptr;
    }
    used.store(place + 1);
    return &all[place];
  }
  void give(Slot* slot) {
    const std::lock_guard lock(mutex);
    free.push_back(slot);
  }
};

// Never destroyed: threads may outlive static destructors.
Slots& slots() {
  static auto* all = new Slots;
  return *all;
}

// Kernels that no slot tells of: of threads that found none, and kernels inside of
// kernels. Any stream may be theirs.
std::atomic<int> odd{0};

thread_local Slot* mine __attribute__((tls_model("initial-exec"))) = nullptr;

void takeSlot() {
  struct Owner {
    ~Owner() {
      if (mine) {
        slots().give(mine);
        mine = nullptr;
      }
    }
  };
  thread_local Owner owner;
  static_cast<void>(owner);
  mine = slots().take();
}

} // namespace

RunningHere::RunningHere(orStream_t stream) {
  if (!mine) [[unlikely]] {
    takeSlot();
  }
  const orStream_t outer =
      mine ? mine->stream.load(std::memory_order_relaxed) : nullptr;
  if (!mine || (outer && outer != stream)) [[unlikely]] {
    isOdd_ = true;
    ++odd;
  } else if (!outer) {
    isFirst_ = true;
    // Work behind the kernel is launched after the kernel took its ticket, and that
    // comes after this.
    mine->stream.store(stream, std::memory_order_release);
  }
}

RunningHere::~RunningHere() {
  if (isFirst_) [[likely]] {
    mine->stream.store(nullptr, std::memory_order_release);
  } else if (isOdd_) {
    --odd;
  }
}

bool runsElsewhere(orStream_t stream) {
  if (odd.load() > 0) [[unlikely]] {
    return true;
  }
  const Slots& known = slots();
  const size_t used = known.used.load(std::memory_order_acquire);
  for (size_t i = 0; i < used; ++i) {
    const Slot& slot = known.all[i];
    if (slot.stream.load(std::memory_order_acquire) == stream &&
        &slot != mine) {
      return true;
    }
  }
  return false;
}

} // namespace c10::openreg
