// The figures of the block pool.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace c10::openreg {

/// One figure over time.
struct PoolStat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0; // sum of all increases
  int64_t freed = 0; // sum of all decreases

  void add(int64_t amount) {
    current += amount;
    peak = std::max(peak, current);
    allocated += amount;
  }
  void subtract(int64_t amount) {
    current -= amount;
    freed += amount;
  }
};

/// The figures torch.cuda.memory_stats() has: each for all blocks, for the
/// small and for the large ones.
struct PoolStats {
  enum Kind { All, Small, Large, Kinds };
  using Array = std::array<PoolStat, Kinds>;

  Array allocation, segment, active, inactiveSplit; // counts
  Array allocatedBytes, reservedBytes, activeBytes, inactiveSplitBytes;
  Array requestedBytes;
  int64_t retries = 0; // requests for which the cache had to be given back
  int64_t outOfMemory = 0; // requests that failed
  int64_t maps = 0; // calls of mapSegment() that succeeded
  int64_t unmaps = 0;
  int64_t waitsForAll = 0; // times that all parked blocks were waited for
  // Blocks and segments of maxSplitSize and more.
  PoolStat oversizeAllocations, oversizeSegments;

  /// Calls `visit(array)` for each of the arrays.
  template <class Visit>
  void forEach(Visit visit) {
    for (Array* array :
         {&allocation,
          &segment,
          &active,
          &inactiveSplit,
          &allocatedBytes,
          &reservedBytes,
          &activeBytes,
          &inactiveSplitBytes,
          &requestedBytes}) {
      visit(*array);
    }
  }
};

/// A figure as the pool counts it. Each change costs: so only what cannot be
/// found out later is kept, and that in one cache line.
class alignas(64) PoolCounter {
 public:
  enum Kind { Small, Large };

  void add(Kind kind, int64_t amount) {
    const int64_t now = current_[kind] += amount;
    sum_[kind] += amount;
    if (now > peak_[kind]) {
      peak_[kind] = now;
    }
    // The peak of all is not the sum of the peaks.
    if (const int64_t all = now + current_[1 - kind]; all > peakOfAll_) {
      peakOfAll_ = all;
    }
  }
  void subtract(Kind kind, int64_t amount) {
    current_[kind] -= amount;
  }
  /// Whichever of the two it is.
  void change(Kind kind, int64_t amount) {
    amount > 0 ? add(kind, amount) : subtract(kind, -amount);
  }

  void resetPeak() {
    peak_[Small] = current_[Small];
    peak_[Large] = current_[Large];
    peakOfAll_ = current();
  }

  int64_t current() const {
    return current_[Small] + current_[Large];
  }

  /// The figure since the pool was made.
  PoolStats::Array read() const {
    const PoolStat small = read(Small), large = read(Large);
    return {
        PoolStat{
            small.current + large.current,
            peakOfAll_,
            small.allocated + large.allocated,
            small.freed + large.freed},
        small,
        large};
  }

 private:
  PoolStat read(Kind kind) const {
    return {
        current_[kind], peak_[kind], sum_[kind], sum_[kind] - current_[kind]};
  }

  int64_t current_[2] = {};
  int64_t sum_[2] = {}; // of all increases
  int64_t peak_[2] = {};
  int64_t peakOfAll_ = 0;
};

/// All counters of a pool; those of a hit come first.
struct PoolCounters {
  PoolCounter allocation, allocatedBytes, active, activeBytes, requestedBytes;
  PoolCounter inactiveSplit, inactiveSplitBytes, segment, reservedBytes;
  // Figures that need no counter, and of the others the sums at the last reset.
  PoolStats others;

  PoolStats read() {
    PoolStats stats = others;
    forEach([&](PoolCounter& counter, auto figure) {
      stats.*figure = since(counter, others.*figure);
    });
    return stats;
  }
  void resetPeaks() {
    forEach([](PoolCounter& counter, auto /*figure*/) { counter.resetPeak(); });
    for (PoolStat* stat :
         {&others.oversizeAllocations, &others.oversizeSegments}) {
      stat->peak = stat->current;
    }
  }
  void resetSums() {
    forEach([&](PoolCounter& counter, auto figure) {
      others.*figure = counter.read();
    });
    for (PoolStat* stat :
         {&others.oversizeAllocations, &others.oversizeSegments}) {
      stat->allocated = stat->freed = 0;
    }
    others.retries = others.outOfMemory = 0;
  }

  /// A counter, with the sums from a certain moment on.
  static PoolStats::Array since(
      const PoolCounter& counter,
      const PoolStats::Array& then) {
    PoolStats::Array now = counter.read();
    for (size_t kind = 0; kind < now.size(); ++kind) {
      now[kind].allocated -= then[kind].allocated;
      now[kind].freed -= then[kind].freed;
    }
    return now;
  }

 private:
  template <class Visit>
  void forEach(Visit visit) {
    visit(allocation, &PoolStats::allocation);
    visit(segment, &PoolStats::segment);
    visit(active, &PoolStats::active);
    visit(inactiveSplit, &PoolStats::inactiveSplit);
    visit(allocatedBytes, &PoolStats::allocatedBytes);
    visit(reservedBytes, &PoolStats::reservedBytes);
    visit(activeBytes, &PoolStats::activeBytes);
    visit(inactiveSplitBytes, &PoolStats::inactiveSplitBytes);
    visit(requestedBytes, &PoolStats::requestedBytes);
  }
};

} // namespace c10::openreg
