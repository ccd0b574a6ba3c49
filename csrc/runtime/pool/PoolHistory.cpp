#include "runtime/pool/PoolHistory.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace c10::openreg {

std::vector<PoolTraceEntry> PoolHistory::turn(
    bool on,
    PoolRecord record,
    size_t capacity,
    bool clear) {
  isOn_ = on;
  record_ = on ? record : PoolRecord::Never;
  capacity_ = std::max<size_t>(capacity, 1);
  std::vector<PoolTraceEntry> kept;
  if (on && !clear) {
    kept = read();
  }
  if (kept.size() > capacity_) {
    kept.erase(
        kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(capacity_));
  }
  oldest_ = 0;
  return std::exchange(entries_, std::move(kept));
}

void PoolHistory::add(
    PoolTraceEntry::Action action,
    const void* address,
    size_t size,
    void* stream,
    PoolId pool,
    const PoolContext& context) {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  PoolTraceEntry entry{
      action,
      reinterpret_cast<uintptr_t>(address),
      size,
      stream,
      pool,
      std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(),
      shouldGather(PoolRecord::Alloc) ? context : nullptr};
  if (entries_.size() < capacity_) {
    entries_.push_back(std::move(entry));
    return;
  }
  entries_[oldest_] = std::move(entry);
  oldest_ = (oldest_ + 1) % capacity_;
}

std::vector<PoolTraceEntry> PoolHistory::read() const {
  std::vector<PoolTraceEntry> entries;
  entries.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    entries.push_back(entries_[(oldest_ + i) % entries_.size()]);
  }
  return entries;
}

} // namespace c10::openreg
