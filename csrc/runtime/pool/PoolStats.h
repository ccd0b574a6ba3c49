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

} // namespace c10::openreg
