#include "adversary.h"

#include "device.h"
#include "mix.h"

#include <algorithm>
#include <chrono>

namespace openreg {
namespace {

// docs:begin adversary-limits
constexpr std::chrono::seconds kHold{1};
constexpr std::chrono::milliseconds kTurn{20};
// docs:end adversary-limits
constexpr std::chrono::milliseconds kLook{1};

} // namespace

void Adversary::restart(
    uint64_t seed,
    std::optional<std::vector<uint64_t>> delays) {
  if (delays) {
    std::sort(delays->begin(), delays->end());
  }
  std::lock_guard lock(mutex_);
  seed_.store(seed, std::memory_order_relaxed);
  delays_ = std::move(delays);
  submitted_ = 0;
  tasks_.clear();
  unfinished_.clear();
}

void Adversary::note(const Stream& stream, const char* name) {
  if (tasks_.size() < kTasksKept) {
    tasks_.push_back({name, stream.id(), stream.device().index()});
  }
}

void Adversary::skip(const Stream& stream, const char* name) {
  std::lock_guard lock(mutex_);
  note(stream, name);
  ++submitted_;
}

uint64_t Adversary::number(const Stream& stream, const char* name) {
  std::lock_guard lock(mutex_);
  note(stream, name);
  if (delays_) {
    unfinished_.emplace(submitted_, &stream);
  }
  return submitted_++;
}

std::vector<orScheduledTask> Adversary::tasks() {
  std::lock_guard lock(mutex_);
  return tasks_;
}

uint64_t Adversary::rank(uint64_t order) const {
  return seed() == 0 ? order : mix(seed() ^ mix(order));
}

bool Adversary::delays(uint64_t order) const {
  return !delays_ ||
      std::binary_search(delays_->begin(), delays_->end(), order);
}

void Adversary::force(const Targets& targets) {
  std::lock_guard lock(mutex_);
  for (const auto& [stream, finished] : targets) {
    Lane& lane = lanes_[stream];
    lane.forced = std::max(lane.forced, finished);
  }
  changed_.notify_all();
}

// Whether the stream cannot go on: it has come to a task to hold back, or waits for a
// stream that has.
bool Adversary::isStuck(const Stream& stream) const {
  const Stream* at = &stream;
  for (size_t hops = 0; at && hops < lanes_.size(); ++hops) {
    const auto found = lanes_.find(at);
    if (found == lanes_.end()) {
      return false;
    }
    const Lane& lane = found->second;
    if (lane.state != State::Waiting) {
      return lane.delayed &&
          (lane.state == State::Held || lane.state == State::Ready);
    }
    at = at->blockedBy();
  }
  return at != nullptr; // they wait for each other
}

bool Adversary::anyPrompt(const Stream& stream, uint64_t before) const {
  for (const auto& [order, other] : unfinished_) {
    if (order >= before) {
      break;
    }
    if (other != &stream && !delays(order) && !isStuck(*other)) {
      return true;
    }
  }
  return false;
}

void Adversary::awaitTurn(Stream& stream, uint64_t ticket, const Slot& slot) {
  std::unique_lock lock(mutex_);
  Lane& lane = lanes_[&stream];
  lane.order = slot.trace.order;
  lane.delayed = delays(lane.order);
  if (lane.delayed) {
    lane.state = State::Held;
    changed_.notify_all();
    changed_.wait_for(lock, kHold, [&] { return lane.forced > ticket; });
  }
  lane.forced = std::max(lane.forced, ticket + 1);
  if (slot.info.kind == TaskKind::Wait) {
    lane.state = State::Waiting;
    changed_.notify_all();
    return;
  }
  lane.rank = rank(lane.order);
  lane.state = State::Ready;
  changed_.notify_all();
  if (!delays_) {
    changed_.wait_for(lock, kTurn, [&] { return isNext(stream); });
  } else {
    // Nobody tells when a stream begins to wait for another, so look again.
    const auto deadline = std::chrono::steady_clock::now() + kHold;
    const auto mayRun = [&] {
      return lane.delayed ? isNext(stream) && !anyPrompt(stream, UINT64_MAX)
                          : !anyPrompt(stream, lane.order);
    };
    while (!mayRun() && std::chrono::steady_clock::now() < deadline) {
      changed_.wait_for(lock, kLook);
    }
  }
  lane.state = State::Running;
}

void Adversary::endTurn(Stream& stream) {
  std::lock_guard lock(mutex_);
  Lane& lane = lanes_[&stream];
  lane.state = State::Away;
  unfinished_.erase(lane.order);
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
      case State::Held:
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
