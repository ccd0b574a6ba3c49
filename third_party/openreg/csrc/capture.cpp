#include "capture.h"

#include "device.h"
#include "os.h"
#include "runtime.h"
#include "fault.h"
#include "submit.h"

#include <algorithm>
#include <utility>

namespace openreg {
namespace {

// Whether every node comes before the end of the stream in which the capture
// began.
bool isJoined(const Capture& capture) {
  const auto& entries = capture.nodes.entries;
  std::vector<bool> reached(entries.size());
  for (const uint32_t last : capture.members.front().frontier) {
    reached[last] = true;
  }
  for (size_t i = entries.size(); i-- > 0;) {
    if (!reached[i]) {
      return false;
    }
    for (const uint32_t before : entries[i].dependencies) {
      reached[before] = true;
    }
  }
  return true;
}

} // namespace

// --- the life of a capture ------------------------------------------------------

orError_t Captures::begin(Stream& stream, orStreamCaptureMode mode) {
  if (&stream == &stream.device().defaultStream()) {
    return fail(
        orErrorStreamCaptureUnsupported,
        "the default stream cannot be captured; use another stream");
  }
  std::lock_guard lock(mutex_);
  if (const Place place = find(stream); place.capture) {
    return fail(
        orErrorIllegalState,
        "stream %llu takes part in capture %llu already",
        stream.id(),
        place.capture->id);
  }
  captures_.push_back(std::make_shared<Capture>(Capture{
      .id = ++lastId_,
      .mode = mode,
      .thread = os::threadId(),
      .members = {{&stream, {}}}}));
  count_.store(captures_.size());
  stream.setCapturing(true);
  return orSuccess;
}

orError_t Captures::end(Stream& stream, GraphNodes* nodes) {
  std::lock_guard lock(mutex_);
  const auto [capture, member] = find(stream);
  if (!capture) {
    return fail(
        orErrorIllegalState, "stream %llu is not capturing", stream.id());
  }
  if (member != &capture->members.front()) {
    return fail(
        orErrorStreamCaptureUnmatched,
        "capture %llu began in stream %llu, not in stream %llu",
        capture->id,
        capture->members.front().stream->id(),
        stream.id());
  }
  if (capture->mode != orStreamCaptureModeRelaxed &&
      capture->thread != os::threadId()) {
    return fail(
        orErrorStreamCaptureWrongThread,
        "capture %llu was begun by another thread, in a mode that is not "
        "relaxed",
        capture->id);
  }
  orError_t status = orSuccess;
  if (capture->state == Capture::State::Invalidated) {
    status = failOnInvalidated(*capture);
  } else if (!isJoined(*capture)) {
    status = fail(
        orErrorStreamCaptureUnjoined,
        "capture %llu has work in other streams that stream %llu does not wait "
        "for; record an event after it and call orStreamWaitEvent()",
        capture->id,
        stream.id());
  }
  *nodes = std::move(capture->nodes);
  finish(capture);
  return status;
}

void Captures::finish(const std::shared_ptr<Capture>& capture) {
  capture->state = Capture::State::Ended;
  for (const Capture::Member& member : capture->members) {
    member.stream->setCapturing(false);
  }
  capture->members.clear();
  captures_.erase(std::find(captures_.begin(), captures_.end(), capture));
  count_.store(captures_.size());
}

std::shared_ptr<Capture> Captures::leave(Stream& stream) {
  if (!any()) {
    return nullptr;
  }
  std::lock_guard lock(mutex_);
  const auto [capture, member] = find(stream);
  if (!capture) {
    return nullptr;
  }
  if (member == &capture->members.front()) {
    finish(capture);
    return capture;
  }
  stream.setCapturing(false);
  capture->members.erase(
      capture->members.begin() + (member - capture->members.data()));
  return nullptr;
}

orStreamCaptureStatus Captures::status(
    const Stream& stream,
    unsigned long long* id) {
  if (!stream.capturing()) {
    return orStreamCaptureStatusNone;
  }
  std::lock_guard lock(mutex_);
  const Place place = find(stream);
  if (!place.capture) {
    return orStreamCaptureStatusNone;
  }
  if (place.capture->state == Capture::State::Invalidated) {
    return orStreamCaptureStatusInvalidated;
  }
  *id = place.capture->id;
  return orStreamCaptureStatusActive;
}

Captures::Place Captures::find(const Stream& stream) const {
  for (const auto& capture : captures_) {
    for (Capture::Member& member : capture->members) {
      if (member.stream == &stream) {
        return {capture, &member};
      }
    }
  }
  return {};
}

orError_t Captures::findActive(Stream& stream, Place* place) const {
  *place = find(stream);
  if (!place->capture) {
    return fail(
        orErrorIllegalState,
        "the capture in stream %llu was ended by another thread meanwhile",
        stream.id());
  }
  return place->capture->state == Capture::State::Active
      ? orSuccess
      : failOnInvalidated(*place->capture);
}

// --- what is recorded -------------------------------------------------------------

orError_t Captures::add(Stream& stream, const Work& work, bool awaited) {
  std::lock_guard lock(mutex_);
  Place place;
  const orError_t status = findActive(stream, &place);
  if (status != orSuccess) {
    return status;
  }
  if (work.where == Where::Try) {
    return notReady("stream %llu is capturing", stream.id());
  }
  if (awaited || work.where == Where::Here) {
    return failAndInvalidate(
        *place.capture,
        orErrorStreamCaptureUnsupported,
        "stream %llu is capturing, so its work cannot be waited for",
        stream.id());
  }
  auto node = std::make_shared<GraphNode>(work, stream.device());
  place.member->frontier = {
      place.capture->nodes.add(std::move(node), place.member->frontier)};
  return orSuccess;
}

orError_t Captures::add(Stream& stream, std::shared_ptr<GraphNode> node) {
  std::lock_guard lock(mutex_);
  Place place;
  const orError_t status = findActive(stream, &place);
  if (status == orSuccess) {
    node->device = &stream.device();
    place.member->frontier = {
        place.capture->nodes.add(std::move(node), place.member->frontier)};
  }
  return status;
}

orError_t Captures::point(
    Stream& stream,
    std::shared_ptr<const CapturedPoint>* point) {
  std::lock_guard lock(mutex_);
  Place place;
  const orError_t status = findActive(stream, &place);
  if (status == orSuccess) {
    *point = std::make_shared<CapturedPoint>(
        CapturedPoint{place.capture, place.member->frontier});
  }
  return status;
}

orError_t Captures::join(Stream& stream, const CapturedPoint* captured) {
  std::lock_guard lock(mutex_);
  Place place;
  if (stream.capturing()) {
    const orError_t status = findActive(stream, &place);
    if (status != orSuccess) {
      return status;
    }
  }
  if (!captured || captured->capture->state == Capture::State::Ended) {
    return place.capture
        ? failAndInvalidate(
              *place.capture,
              orErrorStreamCaptureIsolation,
              "stream %llu is capturing, but the event was recorded outside "
              "of the capture",
              stream.id())
        : fail(
              orErrorInvalidValue,
              "the event was recorded in a capture that has ended, and stands "
              "for nothing that stream %llu could wait for",
              stream.id());
  }
  Capture& capture = *captured->capture;
  if (capture.state != Capture::State::Active) {
    return failOnInvalidated(capture);
  }
  if (place.capture && place.capture != captured->capture) {
    place.capture->state = Capture::State::Invalidated;
    return failAndInvalidate(
        capture,
        orErrorStreamCaptureMerge,
        "stream %llu takes part in another capture than the event",
        stream.id());
  }
  if (!place.capture) {
    if (&stream == &stream.device().defaultStream()) {
      return failAndInvalidate(
          capture,
          orErrorStreamCaptureImplicit,
          "stream %llu is a default stream and cannot take part in a capture",
          stream.id());
    }
    capture.members.push_back({&stream, captured->frontier});
    stream.setCapturing(true);
    return orSuccess;
  }
  mergeIndices(place.member->frontier, captured->frontier);
  return orSuccess;
}

orError_t captureEventNode(
    Stream& stream,
    orGraphNodeType type,
    orEvent_t event) {
  if (!stream.capturing()) {
    return fail(
        orErrorInvalidValue,
        "an external event is for captures, but stream %llu is not capturing",
        stream.id());
  }
  auto node = std::make_shared<GraphNode>(type);
  node->info = {
      type == orGraphNodeTypeEventRecord ? "record an event"
                                         : "wait for an event",
      TaskKind::Timestamp};
  node->event = event;
  return runtime().captures.add(stream, std::move(node));
}

} // namespace openreg

using namespace openreg;

namespace {

orError_t checkMode(orStreamCaptureMode mode) {
  return mode == orStreamCaptureModeGlobal ||
          mode == orStreamCaptureModeThreadLocal ||
          mode == orStreamCaptureModeRelaxed
      ? orSuccess
      : fail(
            orErrorInvalidValue,
            "mode must be orStreamCaptureModeGlobal (0), "
            "orStreamCaptureModeThreadLocal (1) or orStreamCaptureModeRelaxed "
            "(2), but is %d",
            static_cast<int>(mode));
}

orError_t captureStatus(
    const char* name,
    orStream_t stream,
    orStreamCaptureStatus* status,
    unsigned long long* id) {
  return api(name, [&](Runtime& runtime) {
    const Stream* found = runtime.streams.find(stream);
    if (!found) {
      return failOnStream(stream);
    }
    if (!status) {
      return fail(orErrorInvalidValue, "status must not be NULL");
    }
    *id = 0;
    *status = runtime.captures.status(*found, id);
    const Device& device = found->device();
    return found == &device.defaultStream() &&
            runtime.captures.anyBlocking(device)
        ? fail(
              orErrorStreamCaptureImplicit,
              "a stream of device %d that shares order with the default stream "
              "is capturing",
              device.index())
        : orSuccess;
  });
}

} // namespace

orError_t orStreamBeginCapture(orStream_t stream, orStreamCaptureMode mode) {
  return api("orStreamBeginCapture", [&](Runtime& runtime) {
    Stream* found = runtime.streams.find(stream);
    if (!found) {
      return failOnStream(stream);
    }
    orError_t status = checkMode(mode);
    if (status == orSuccess) {
      status = found->device().check();
    }
    return status == orSuccess ? faults::beginCapture(*found, mode) : status;
  });
}

orError_t orStreamEndCapture(orStream_t stream, orGraph_t* graph) {
  if (graph) {
    *graph = nullptr;
  }
  return api("orStreamEndCapture", [&](Runtime& runtime) {
    Stream* found = runtime.streams.find(stream);
    if (!found) {
      return failOnStream(stream);
    }
    if (!graph) {
      return fail(orErrorInvalidValue, "graph must not be NULL");
    }
    GraphNodes nodes;
    const orError_t status = runtime.captures.end(*found, &nodes);
    return status == orSuccess ? createGraph(std::move(nodes), graph) : status;
  });
}

orError_t orStreamIsCapturing(
    orStream_t stream,
    orStreamCaptureStatus* status) {
  unsigned long long id = 0;
  return captureStatus("orStreamIsCapturing", stream, status, &id);
}

orError_t orStreamGetCaptureInfo(
    orStream_t stream,
    orStreamCaptureStatus* status,
    unsigned long long* id) {
  unsigned long long unwanted = 0;
  return captureStatus(
      "orStreamGetCaptureInfo", stream, status, id ? id : &unwanted);
}

orError_t orThreadExchangeStreamCaptureMode(orStreamCaptureMode* mode) {
  return api("orThreadExchangeStreamCaptureMode", [&](Runtime&) {
    if (!mode) {
      return fail(orErrorInvalidValue, "mode must not be NULL");
    }
    const orError_t status = checkMode(*mode);
    if (status == orSuccess) {
      *mode = exchangeThreadMode(*mode);
    }
    return status;
  });
}
