// The last things that happened in the block pool.
#pragma once

#include "runtime/OpenRegPoolTypes.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace c10::openreg {

/// A ring of entries: when it is full, a new one takes the place of the oldest.
class PoolHistory {
 public:
  /// Keeps the last ones of those that are there.
  void setCapacity(size_t entries) {
    std::vector<PoolTraceEntry> kept = read();
    capacity_ = std::max<size_t>(entries, 1);
    if (kept.size() > capacity_) {
      kept.erase(
          kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(capacity_));
    }
    entries_ = std::move(kept);
    oldest_ = 0;
  }

  void add(PoolTraceEntry entry) {
    if (entries_.size() < capacity_) {
      entries_.push_back(std::move(entry));
      return;
    }
    entries_[oldest_] = std::move(entry);
    oldest_ = (oldest_ + 1) % capacity_;
  }

  /// Empties it and gives what was in it, for the caller to destroy.
  std::vector<PoolTraceEntry> clear() {
    oldest_ = 0;
    return std::exchange(entries_, {});
  }

  /// Oldest first.
  std::vector<PoolTraceEntry> read() const {
    std::vector<PoolTraceEntry> entries;
    entries.reserve(entries_.size());
    for (size_t i = 0; i < entries_.size(); ++i) {
      entries.push_back(entries_[(oldest_ + i) % entries_.size()]);
    }
    return entries;
  }

 private:
  size_t capacity_ = 1;
  size_t oldest_ = 0;
  std::vector<PoolTraceEntry> entries_;
};

} // namespace c10::openreg
