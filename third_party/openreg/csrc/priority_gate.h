// Who may start a task next, when streams of several priorities share fewer
// processors.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace openreg {

// docs:begin priority-range
inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -3;
// docs:end priority-range

/// Lets as many tasks run at once as there are processors, the waiting one with
/// the greatest priority next.
///
/// A running kernel may be waiting for something that a later task does. So if
/// no task has finished for a moment, those that run are taken to use no
/// processor, and the next task may start.
///
/// Threads: any may call anything.
class PriorityGate {
 public:
  explicit PriorityGate(
      unsigned processors,
      std::chrono::nanoseconds patience = kPatience)
      : processors_(processors), patience_(patience) {}

  /// Waits until a task of that priority may start.
  void enter(int priority);

  /// Says that a task which entered has finished.
  void leave();

  /// Number of tasks that wait to enter.
  unsigned waiting();

 private:
  static constexpr std::chrono::milliseconds kPatience{2};

  bool nobodyBefore(int priority) const;

  const unsigned processors_;
  const std::chrono::nanoseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned running_ = 0;
  uint64_t finished_ = 0;
  std::array<unsigned, kLeastPriority - kGreatestPriority + 1> waiting_{};
};

} // namespace openreg
