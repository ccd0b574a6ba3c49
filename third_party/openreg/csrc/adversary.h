// The adversarial schedule: work runs as late, and in as unlikely an order, as
// the program's synchronisation allows.
#pragma once

#include "stream.h"

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
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
  explicit Adversary(uint64_t seed) : seed_(seed) {}

  /// Number for the next task, in the order of submission.
  uint64_t nextOrder();

  /// Of two pieces of work that could go on, the one with the greater rank does.
  uint64_t rank(uint64_t order) const;

  /// Lets streams run until so many of their tasks are done. Of streams forced
  /// together none is ahead.
  using Targets = std::vector<std::pair<Stream*, uint64_t>>;
  void force(const Targets& targets);

  /// The worker's turn: returns when the task may run. A wait for another
  /// stream is held back like any task, but takes no turn.
  void awaitTurn(Stream& stream, uint64_t ticket, const Slot& slot);

  /// Says that the task has finished.
  void endTurn(Stream& stream);
  // docs:end adversary

 private:
  enum class State { Away, Ready, Running, Waiting };
  struct Lane {
    State state = State::Away;
    uint64_t forced = 0;
    uint64_t rank = 0; // of the ready task; the greatest goes first
  };

  bool isNext(const Stream& stream);

  const uint64_t seed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const Stream*, Lane> lanes_;
  uint64_t submitted_ = 0;
};

} // namespace openreg
