// Events that processes share.
#pragma once

#include "ipc.h"

#include <chrono>

namespace openreg::ipc {

/// What has become of the work that a record stands for. Lost: the process that
/// recorded it ended before.
enum class Fate { Pending, Done, Lost };

/// The state of an event, the same in all processes. Records are numbered; a
/// later one replaces those before.
class EventState {
 public:
  EventState() = default;
  explicit EventState(std::shared_ptr<Shared> object)
      : object_(std::move(object)), stamp_(object_->stamp.load()) {}

  explicit operator bool() const {
    return object_ != nullptr;
  }
  const Shared& object() const {
    return *object_;
  }

  /// Starts a record of this process, which finish() must follow.
  uint64_t begin() const;
  void finish(uint64_t record) const;

  uint64_t latest() const {
    return object_->recorded.load(std::memory_order_acquire);
  }
  /// The process that made the latest record.
  int recorder() const {
    return object_->recorder.load();
  }

  Fate fateOf(uint64_t record) const;

  /// Waits while the work is pending, until `deadline` (of os::now()), and while
  /// `goOn()`.
  template <class GoOn>
  Fate wait(uint64_t record, uint64_t deadline, GoOn goOn) const {
    Fate fate = Fate::Pending;
    while (goOn()) {
      const uint32_t word = object_->word.load(std::memory_order_acquire);
      fate = fateOf(record);
      if (fate != Fate::Pending || os::now() >= deadline) {
        break;
      }
      // Nobody wakes those who wait for a process that ends: look for oneself.
      constexpr std::chrono::milliseconds kLook{20};
      os::parkWhileShared(object_->word, word, kLook);
    }
    return fate;
  }

 private:
  std::shared_ptr<Shared> object_;
  uint64_t stamp_ = 0;
};

} // namespace openreg::ipc
