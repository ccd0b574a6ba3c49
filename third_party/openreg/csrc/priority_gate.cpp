#include "priority_gate.h"

#include <numeric>

namespace openreg {
namespace {

size_t rank(int priority) {
  return static_cast<size_t>(priority - kGreatestPriority);
}

} // namespace

void PriorityGate::enter(int priority) {
  std::unique_lock lock(mutex_);
  ++waiting_[rank(priority)];
  const auto free = [&] {
    return running_ < processors_ && nobodyBefore(priority);
  };
  uint64_t seen = finished_;
  while (!changed_.wait_for(lock, patience_, free)) {
    if (seen == finished_ && nobodyBefore(priority)) {
      break;
    }
    seen = finished_;
  }
  --waiting_[rank(priority)];
  ++running_;
  changed_.notify_all();
}

void PriorityGate::leave() {
  std::lock_guard lock(mutex_);
  --running_;
  ++finished_;
  changed_.notify_all();
}

unsigned PriorityGate::waiting() {
  std::lock_guard lock(mutex_);
  return std::accumulate(waiting_.begin(), waiting_.end(), 0u);
}

bool PriorityGate::nobodyBefore(int priority) const {
  for (size_t i = 0; i < rank(priority); ++i) {
    if (waiting_[i] != 0) {
      return false;
    }
  }
  return true;
}

} // namespace openreg
