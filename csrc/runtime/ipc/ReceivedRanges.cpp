#include "runtime/ipc/ReceivedRanges.h"

#include <iterator>

namespace c10::openreg::ipc {

void ReceivedRanges::add(const void* base, size_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_.emplace(static_cast<const char*>(base), bytes);
  count_.store(bytes_.size());
}

void ReceivedRanges::remove(const void* base) {
  const std::lock_guard lock(mutex_);
  bytes_.erase(bytes_.find(static_cast<const char*>(base)));
  count_.store(bytes_.size());
}

bool ReceivedRanges::contain(const void* pointer) const {
  if (count_.load(std::memory_order_relaxed) == 0) [[likely]] {
    return false;
  }
  const auto* byte = static_cast<const char*>(pointer);
  const std::lock_guard lock(mutex_);
  const auto after = bytes_.upper_bound(byte);
  if (after == bytes_.begin()) {
    return false;
  }
  const auto [base, bytes] = *std::prev(after);
  return byte < base + bytes;
}

ReceivedRanges& receivedRanges() {
  static auto* ranges = new ReceivedRanges;
  return *ranges;
}

} // namespace c10::openreg::ipc
