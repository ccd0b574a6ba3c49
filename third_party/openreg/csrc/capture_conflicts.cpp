// Calls that conflict with a capture: they fail, and invalidate it.
#include "capture.h"

#include "device.h"
#include "error.h"
#include "os.h"
#include "stream.h"

#include <algorithm>
#include <utility>

namespace openreg {
namespace {

thread_local orStreamCaptureMode threadMode = orStreamCaptureModeGlobal;

} // namespace

orStreamCaptureMode exchangeThreadMode(orStreamCaptureMode mode) {
  return std::exchange(threadMode, mode);
}

orError_t failOnInvalidated(const Capture& capture) {
  return fail(
      orErrorStreamCaptureInvalidated,
      "an earlier call invalidated capture %llu; end it with "
      "orStreamEndCapture()",
      capture.id);
}

orError_t failAndInvalidate(
    Capture& capture,
    orError_t code,
    const char* format,
    unsigned long long stream) {
  if (std::exchange(capture.state, Capture::State::Invalidated) !=
      Capture::State::Active) {
    return failOnInvalidated(capture);
  }
  return fail(code, format, stream);
}

// Invalidates what `doomed(capture)` holds for. Returns the error, without a sentence
// of its own if none was invalidated before.
template <class Doomed>
orError_t Captures::invalidateWhere(Doomed doomed) {
  orError_t status = orSuccess;
  std::lock_guard lock(mutex_);
  for (const auto& capture : captures_) {
    if (!doomed(*capture)) {
      continue;
    }
    if (std::exchange(capture->state, Capture::State::Invalidated) ==
        Capture::State::Active) {
      status = orErrorStreamCaptureUnsupported;
    } else if (status == orSuccess) {
      status = failOnInvalidated(*capture);
    }
  }
  return status;
}

orError_t Captures::checkSafeSlowly(const char* what) {
  if (threadMode == orStreamCaptureModeRelaxed) {
    return orSuccess;
  }
  const uint64_t thread = os::threadId();
  const orError_t status = invalidateWhere([&](const Capture& capture) {
    return capture.thread == thread
        ? capture.mode != orStreamCaptureModeRelaxed
        : capture.mode == orStreamCaptureModeGlobal &&
            threadMode == orStreamCaptureModeGlobal;
  });
  return status != orErrorStreamCaptureUnsupported
      ? status
      : fail(
            status,
            "%s is unsafe while a stream is capturing; "
            "orThreadExchangeStreamCaptureMode() can allow it",
            what);
}

orError_t Captures::checkDeviceSlowly(const Device& device) {
  const orError_t status = invalidateWhere(
      [&](const Capture& capture) { return capture.uses(device); });
  return status != orErrorStreamCaptureUnsupported
      ? status
      : fail(
            status,
            "a stream of device %d is capturing, so the device cannot be "
            "waited "
            "for",
            device.index());
}

void Captures::invalidate(const Device& device) {
  std::lock_guard lock(mutex_);
  for (const auto& capture : captures_) {
    if (capture->uses(device)) {
      capture->state = Capture::State::Invalidated;
    }
  }
}

orError_t Captures::checkStream(Stream& stream) {
  if (!stream.capturing()) {
    return orSuccess;
  }
  std::lock_guard lock(mutex_);
  const Place place = find(stream);
  return place.capture
      ? failAndInvalidate(
            *place.capture,
            orErrorStreamCaptureUnsupported,
            "stream %llu is capturing, so there is nothing to wait for or to "
            "ask about",
            stream.id())
      : orSuccess;
}

orError_t Captures::checkEvent(
    const CapturedPoint* captured,
    const char* what) {
  if (!captured) {
    return checkSafe(what);
  }
  std::lock_guard lock(mutex_);
  return captured->capture->state == Capture::State::Ended
      ? fail(
            orErrorInvalidValue,
            "the event was recorded in a capture, and so stands for no work; "
            "orEventRecordExternal records it with every launch of the graph")
      : failAndInvalidate(
            *captured->capture,
            orErrorCapturedEvent,
            "the event was recorded in capture %llu, and its work does not run",
            captured->capture->id);
}

orError_t Captures::failOnImplicit(Stream& capturing) {
  std::lock_guard lock(mutex_);
  const Place place = find(capturing);
  return place.capture
      ? failAndInvalidate(
            *place.capture,
            orErrorStreamCaptureImplicit,
            "work of the default stream comes after stream %llu, which is "
            "capturing",
            capturing.id())
      : orSuccess;
}

void Captures::invalidate(const Stream& stream) {
  std::lock_guard lock(mutex_);
  if (const Place place = find(stream); place.capture) {
    place.capture->state = Capture::State::Invalidated;
  }
}

bool Capture::uses(const Device& device) const {
  return std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return &member.stream->device() == &device;
  });
}

bool Captures::anyBlocking(const Device& device) {
  if (!any()) {
    return false;
  }
  std::lock_guard lock(mutex_);
  return std::any_of(
      captures_.begin(), captures_.end(), [&](const auto& capture) {
        return std::any_of(
            capture->members.begin(),
            capture->members.end(),
            [&](const Capture::Member& member) {
              return &member.stream->device() == &device &&
                  member.stream->blocking();
            });
      });
}

} // namespace openreg
