#include "sanitizer/Order.h"

namespace c10::openreg::sanitizer {

Order::Stream& Order::at(StreamKey stream) {
  const auto [found, isNew] = streams_.try_emplace(stream);
  if (isNew) {
    found->second.actor = static_cast<Actor>(actors_.size());
    actors_.push_back(&found->second);
  }
  return found->second;
}

Actor Order::find(StreamKey stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? kHost : found->second.actor;
}

Order::Moment Order::launch(StreamKey key, int device) {
  Stream& stream = at(key);
  stream.device = device;
  if (stream.hostVersion != hostVersion_) {
    stream.clock.join(host_);
    stream.hostVersion = hostVersion_;
  }
  return {stream.actor, stream.clock.advance(stream.actor), stream.clock};
}

Order::Moment Order::actOnHost() {
  ++hostVersion_;
  return {kHost, host_.advance(kHost), host_};
}

void Order::assume(Actor later, Actor earlier) {
  const VectorClock& clock = earlier == kHost ? host_ : actors_[earlier]->clock;
  if (later == kHost) {
    hostLearns(clock);
  } else {
    actors_[later]->clock.join(clock);
  }
}

void Order::record(EventKey event, StreamKey stream) {
  events_[event] = at(stream).clock;
}

void Order::wait(StreamKey stream, EventKey event) {
  if (const auto found = events_.find(event); found != events_.end()) {
    at(stream).clock.join(found->second);
  }
}

void Order::hostWaitsForEvent(EventKey event) {
  if (const auto found = events_.find(event); found != events_.end()) {
    hostLearns(found->second);
  }
}

void Order::hostWaitsForStream(StreamKey stream) {
  hostLearns(at(stream).clock);
}

void Order::hostWaitsForDevice(int device) {
  for (const auto& [key, stream] : streams_) {
    if (stream.device == device) {
      hostLearns(stream.clock);
    }
  }
}

} // namespace c10::openreg::sanitizer
