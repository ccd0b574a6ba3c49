// What comes before what, as far as the program has said so.
#pragma once

#include "sanitizer/VectorClock.h"

#include <unordered_map>

namespace c10::openreg::sanitizer {

/// Names of streams and events: only whether two are the same matters.
using StreamKey = const void*;
using EventKey = const void*;

/// The clocks of the host, the streams and the events.
///
/// Work of a stream comes after its earlier work, after the events that the stream waits
/// for, and after all that the host had done or waited for when it launched the work. All
/// threads of the host are one actor: what orders them is not seen.
///
/// Threads: one at a time.
class Order {
 public:
  /// The clock of the next piece of work.
  struct Moment {
    Actor actor;
    Tick tick;
    const VectorClock& before; ///< until the next call
  };
  Moment launch(StreamKey stream, int device);
  /// The host does something itself.
  Moment actOnHost();

  void record(EventKey event, StreamKey stream);
  void destroy(EventKey event) {
    events_.erase(event);
  }
  void wait(StreamKey stream, EventKey event);
  void hostWaitsForEvent(EventKey event);
  void hostWaitsForStream(StreamKey stream);
  void hostWaitsForDevice(int device);
  /// Whether the host knows that so much work of the stream is over.
  bool hostIsAfter(StreamKey stream, Tick tick) const {
    return tick <= host_[find(stream)];
  }

  bool hasEvent(EventKey event) const {
    return events_.contains(event);
  }
  /// Lets what one actor does next come after all that another one has done, as if the
  /// program said so.
  void assume(Actor later, Actor earlier);
  /// The host if the stream has done nothing.
  Actor find(StreamKey stream) const;

 private:
  struct Stream {
    Actor actor = kHost;
    int device = -1;
    VectorClock clock;
    uint64_t hostVersion = 0; // that the clock has
  };
  Stream& at(StreamKey stream);
  void hostLearns(const VectorClock& clock) {
    host_.join(clock);
    ++hostVersion_;
  }

  VectorClock host_;
  uint64_t hostVersion_ = 1;
  std::unordered_map<StreamKey, Stream> streams_;
  std::vector<Stream*> actors_{nullptr}; // the host is the first
  std::unordered_map<EventKey, VectorClock> events_;
};

} // namespace c10::openreg::sanitizer
