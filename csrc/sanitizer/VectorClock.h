// Which work of others is known to be over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace c10::openreg::sanitizer {

/// The host, or a stream: something that does one thing after the other.
using Actor = uint32_t;
inline constexpr Actor kHost = 0;

/// Counts what an actor has done.
using Tick = uint64_t;

/// For each actor, how much of its work comes before.
///
/// Threads: one at a time.
class VectorClock {
 public:
  Tick operator[](Actor actor) const {
    return actor < ticks_.size() ? ticks_[actor] : 0;
  }

  /// One more piece of work of the actor.
  Tick advance(Actor actor) {
    grow(actor + 1);
    return ++ticks_[actor];
  }

  /// What comes before the other comes before this as well.
  void join(const VectorClock& other) {
    grow(other.ticks_.size());
    for (size_t i = 0; i < other.ticks_.size(); ++i) {
      ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
    }
  }

 private:
  void grow(size_t actors) {
    if (ticks_.size() < actors) {
      ticks_.resize(actors);
    }
  }

  std::vector<Tick> ticks_;
};

} // namespace c10::openreg::sanitizer
