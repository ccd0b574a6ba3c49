#include "runtime/OpenRegEvent.h"

#include "runtime/OpenRegObserver.h"
#include "runtime/OpenRegTrace.h"

namespace c10::openreg {

orEvent_t createEvent(DeviceIndex device, unsigned flags) {
  const DeviceScope scope(device);
  orEvent_t event = nullptr;
  OPENREG_CHECK(orEventCreateWithFlags(&event, flags));
  trace(&Trace::trace_gpu_event_creation, numberOf(event));
  return event;
}

void destroyEvent(orEvent_t event) noexcept {
  trace(&Trace::trace_gpu_event_deletion, numberOf(event));
  observe(&RuntimeObserver::onEventDestroy, event);
  OPENREG_CHECK_WARN(orEventDestroy(event));
}

void recordEvent(orEvent_t event, const OpenRegStream& stream) {
  OPENREG_CHECK(orEventRecord(event, stream));
  observe(&RuntimeObserver::onEventRecord, event, stream.stream());
  trace(
      &Trace::trace_gpu_event_record,
      numberOf(event),
      numberOf(stream.stream()));
}

void waitForEvent(const OpenRegStream& stream, orEvent_t event) {
  OPENREG_CHECK(orStreamWaitEvent(stream, event, 0));
  observe(&RuntimeObserver::onStreamWait, stream.stream(), event);
  trace(
      &Trace::trace_gpu_event_wait, numberOf(event), numberOf(stream.stream()));
}

bool queryEvent(orEvent_t event) {
  const bool happened = OPENREG_IS_READY(orEventQuery(event));
  if (happened) {
    observe(&RuntimeObserver::onHostWaitForEvent, event);
  }
  return happened;
}

void synchronizeEvent(orEvent_t event) {
  trace(&Trace::trace_gpu_event_synchronization, numberOf(event));
  OPENREG_CHECK(orEventSynchronize(event));
  observe(&RuntimeObserver::onHostWaitForEvent, event);
}

// --- OpenRegEvent -------------------------------------------------------------

OpenRegEvent::~OpenRegEvent() {
  if (event_) {
    destroyEvent(event_);
  }
}

void OpenRegEvent::record(const OpenRegStream& stream) {
  if (!event_) {
    event_ = createEvent(stream.device_index(), flags_);
    device_ = stream.device_index();
  }
  TORCH_CHECK(
      device_ == stream.device_index(),
      "the event was recorded on ",
      Device(kDeviceType, device_),
      ", so it cannot be recorded on a stream of ",
      stream.device());
  recordEvent(event_, stream);
}

void OpenRegEvent::block(const OpenRegStream& stream) const {
  if (event_) {
    waitForEvent(stream, event_);
  }
}

bool OpenRegEvent::query() const {
  return !event_ || queryEvent(event_);
}

void OpenRegEvent::synchronize() const {
  if (event_) {
    synchronizeEvent(event_);
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
