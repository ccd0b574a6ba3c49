#include "adversary.h"

#include <algorithm>
#include <chrono>

namespace openreg {
namespace {

// docs:begin adversary-limits
constexpr std::chrono::seconds kHold{1};
constexpr std::chrono::milliseconds kTurn{20};
// docs:end adversary-limits

// Spreads the bits of a number (splitmix64).
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

} // namespace

uint64_t Adversary::nextOrder() {
  std::lock_guard lock(mutex_);
  return submitted_++;
}

uint64_t Adversary::rank(uint64_t order) const {
  return seed_ == 0 ? order : mix(seed_ ^ mix(order));
}

void Adversary::force(const Targets& targets) {
  std::lock_guard lock(mutex_);
  for (const auto& [stream, finished] : targets) {
    Lane& lane = lanes_[stream];
    lane.forced = std::max(lane.forced, finished);
  }
  changed_.notify_all();
}

void Adversary::awaitTurn(Stream& stream, uint64_t ticket, const Slot& slot) {
  std::unique_lock lock(mutex_);
  Lane& lane = lanes_[&stream];
  changed_.wait_for(lock, kHold, [&] { return lane.forced > ticket; });
  lane.forced = std::max(lane.forced, ticket + 1);
  if (slot.info.kind == TaskKind::Wait) {
    lane.state = State::Waiting;
    changed_.notify_all();
    return;
  }
  lane.rank = rank(slot.trace.order);
  lane.state = State::Ready;
  changed_.notify_all();
  changed_.wait_for(lock, kTurn, [&] { return isNext(stream); });
  lane.state = State::Running;
}

void Adversary::endTurn(Stream& stream) {
  std::lock_guard lock(mutex_);
  lanes_[&stream].state = State::Away;
  changed_.notify_all();
}

// A stream that was forced and has not come for its turn yet is waited for: its
// task may be the one to prefer.
bool Adversary::isNext(const Stream& stream) {
  const Lane& own = lanes_[&stream];
  return std::none_of(lanes_.begin(), lanes_.end(), [&](const auto& entry) {
    const auto& [other, lane] = entry;
    switch (lane.state) {
      case State::Away:
        return !other->reachedQuietly(lane.forced);
      case State::Ready:
        return lane.rank > own.rank;
      case State::Running:
        return true;
      case State::Waiting:
        return false;
    }
    return false;
  });
}

} // namespace openreg
