// How the block pool counts its figures.
#pragma once

#include "runtime/pool/PoolStats.h"
#include "runtime/pool/PoolTypes.h"

#include <cstddef>
#include <cstdint>
#include <map>

namespace c10::openreg {

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

/// All counters of a pool; those of a hit come first. The pool's lock guards it.
struct PoolCounters {
  PoolCounter allocation, allocatedBytes, active, activeBytes, requestedBytes;
  PoolCounter inactiveSplit, inactiveSplitBytes, segment, reservedBytes;
  // Figures that need no counter, and of the others the sums at the last reset.
  PoolStats others;

  // --- blocks: allocated, then freed, then free ---

  void countAllocation(PoolCounter::Kind kind, size_t size, size_t requested) {
    allocation.add(kind, 1);
    allocatedBytes.add(kind, static_cast<int64_t>(size));
    active.add(kind, 1);
    activeBytes.add(kind, static_cast<int64_t>(size));
    requestedBytes.add(kind, static_cast<int64_t>(requested));
  }
  void countFree(PoolCounter::Kind kind, size_t size) {
    allocation.subtract(kind, 1);
    allocatedBytes.subtract(kind, static_cast<int64_t>(size));
  }
  void countInactive(PoolCounter::Kind kind, size_t size, size_t requested) {
    active.subtract(kind, 1);
    activeBytes.subtract(kind, static_cast<int64_t>(size));
    requestedBytes.subtract(kind, static_cast<int64_t>(requested));
  }

  // --- reading ---

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

/// Reserved bytes of each private pool there ever was. The pool's lock guards it.
class ReservedByPool {
 public:
  void change(PoolId id, PoolCounter::Kind kind, int64_t bytes) {
    pools_[id].counter.change(kind, bytes);
  }
  std::map<PoolId, PoolStats::Array> read() const {
    std::map<PoolId, PoolStats::Array> figures;
    for (const auto& [id, pool] : pools_) {
      figures[id] = PoolCounters::since(pool.counter, pool.atReset);
    }
    return figures;
  }
  void resetPeaks() {
    for (auto& [id, pool] : pools_) {
      pool.counter.resetPeak();
    }
  }
  /// Forgets pools without memory that do not exist any more.
  template <class Exists>
  void resetSums(Exists exists) {
    std::erase_if(pools_, [&](const auto& item) {
      return item.second.counter.current() == 0 && !exists(item.first);
    });
    for (auto& [id, pool] : pools_) {
      pool.atReset = pool.counter.read();
    }
  }

 private:
  struct ReservedBytes {
    PoolCounter counter;
    PoolStats::Array atReset;
  };
  std::map<PoolId, ReservedBytes> pools_;
};

} // namespace c10::openreg
