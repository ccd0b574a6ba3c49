#include "runtime/OpenRegEvent.h"

#include "runtime/OpenRegGuard.h"

namespace c10::openreg {

bool queryHandle(orEvent_t event) {
  return !event || OPENREG_IS_READY(orEventQuery(event));
}

OpenRegEvent::~OpenRegEvent() {
  if (event_) {
    OPENREG_CHECK_WARN(orEventDestroy(event_));
  }
}

void OpenRegEvent::record(const OpenRegStream& stream) {
  if (!event_) {
    const OpenRegGuard guard(stream.device());
    OPENREG_CHECK(orEventCreateWithFlags(&event_, flags_));
    device_ = stream.device_index();
  }
  TORCH_CHECK(
      device_ == stream.device_index(),
      "the event was recorded on openreg:",
      static_cast<int>(device_),
      ", so it cannot be recorded on a stream of ",
      stream.device());
  OPENREG_CHECK(orEventRecord(event_, stream));
}

void OpenRegEvent::block(const OpenRegStream& stream) const {
  if (event_) {
    OPENREG_CHECK(orStreamWaitEvent(stream, event_, 0));
  }
}

bool OpenRegEvent::query() const {
  return queryHandle(event_);
}

void OpenRegEvent::synchronize() const {
  if (event_) {
    OPENREG_CHECK(orEventSynchronize(event_));
  }
}

float OpenRegEvent::elapsed_time(const OpenRegEvent& end) const {
  TORCH_CHECK_VALUE(
      event_ && end.event_,
      "Both events must be recorded before calculating elapsed time.");
  float milliseconds = 0;
  OPENREG_CHECK(orEventElapsedTime(&milliseconds, event_, end.event_));
  return milliseconds;
}

} // namespace c10::openreg
