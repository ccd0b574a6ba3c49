// The adversarial schedule: work runs as late, and in as unlikely an order, as
// the program's synchronisation allows.
#pragma once

#include "openreg/schedule.h"
#include "stream.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace openreg {

// docs:begin adversary
/// Holds queued work back until something waits for it or asks about it, and
/// then runs one task at a time. Where several streams could go on, seed 0 takes
/// the task that was submitted last; other seeds choose at random.
///
/// Two limits keep a program alive that synchronises in ways the library cannot
/// see (a host function that wakes a thread, a kernel that waits for another):
/// held work runs after kHold, and a task that runs longer than kTurn no longer
/// keeps the others waiting.
///
/// Threads: any may call anything.
class Adversary {
 public:
  explicit Adversary(uint64_t seed) : seed_(seed) {
    tasks_.reserve(kTasksKept);
  }

  /// Begins to number tasks at 0 again. With `delays`, a list of task numbers, only those
  /// tasks are held back; all others run before them, in the order of their numbers.
  void restart(uint64_t seed, std::optional<std::vector<uint64_t>> delays);
  uint64_t seed() const {
    return seed_.load(std::memory_order_relaxed);
  }

  /// Number for the next task, in the order of submission.
  uint64_t number(const Stream& stream, const char* name);
  /// Gives away the next number for a task that need not be queued.
  void skip(const Stream& stream, const char* name);
  /// The first tasks since restart(), in the order of their numbers.
  std::vector<orScheduledTask> tasks();

  /// Of two pieces of work that could go on, the one with the higher rank does.
  uint64_t rank(uint64_t order) const;

  /// Lets streams run until so many of their tasks are done. No stream of one call
  /// gets a head start on the others.
  using Targets = std::vector<std::pair<Stream*, uint64_t>>;
  void force(const Targets& targets);

  /// The worker's turn: returns when the task may run. A wait for another
  /// stream is held back like any task, but takes no turn.
  void awaitTurn(Stream& stream, uint64_t ticket, const Slot& slot);

  /// Says that the task has finished.
  void endTurn(Stream& stream);
  // docs:end adversary

 private:
  enum class State { Away, Held, Ready, Running, Waiting };
  struct Lane {
    State state = State::Away;
    uint64_t forced = 0;
    uint64_t order = 0; // of the task that came last
    uint64_t rank = 0; // of it; the greatest goes first
    bool delayed = true; // whether it is one to hold back
  };

  static constexpr size_t kTasksKept = 65536;

  void note(const Stream& stream, const char* name);
  bool isNext(const Stream& stream);
  bool delays(uint64_t order) const;
  bool isStuck(const Stream& stream) const;
  /// Whether a task that is not to be held back, with a number below `before`, could
  /// run in another stream.
  bool anyPrompt(const Stream& stream, uint64_t before) const;

  std::atomic<uint64_t> seed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const Stream*, Lane> lanes_;
  uint64_t submitted_ = 0;
  std::vector<orScheduledTask> tasks_;
  std::optional<std::vector<uint64_t>> delays_; // nullopt: all
  std::map<uint64_t, const Stream*> unfinished_; // by number; only with delays_
};

} // namespace openreg
