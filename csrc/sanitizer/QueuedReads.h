// Memory of the host that queued work reads.
#pragma once

#include "sanitizer/VectorClock.h"
#include "sanitizer/Work.h"

#include <deque>
#include <vector>

namespace c10::openreg::sanitizer {

/// Knows what was in the memory when the work was launched. If that has changed before
/// the host waited for the work, somebody wrote to it too early: whoever that was, and
/// whether or not the work had run.
///
/// Threads: one at a time.
class QueuedReads {
 public:
  struct Read {
    WorkPtr work;
    Tick tick; ///< of the work, for its stream
    Range range;
    uint64_t digest; ///< of the bytes at the launch
  };

  void add(const WorkPtr& work, Tick tick, Range range);

  /// Forgets the reads that `isOver(read)`, and returns those whose bytes have changed.
  template <class IsOver>
  std::vector<Read> settle(IsOver isOver) {
    std::vector<Read> changed;
    std::erase_if(reads_, [&](const Read& read) {
      const bool ends = isOver(read);
      if (ends && digestOf(read.range) != read.digest) {
        changed.push_back(read);
      }
      return ends;
    });
    return changed;
  }

 private:
  static uint64_t digestOf(Range range);

  // The oldest ones are forgotten: a program may never wait.
  static constexpr size_t kMost = 256;
  std::deque<Read> reads_;
};

} // namespace c10::openreg::sanitizer
