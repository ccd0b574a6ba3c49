#include "graphs/ExternalEvent.h"

#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegGuard.h"
#include "runtime/OpenRegObserver.h"

namespace c10::openreg {

void recordExternalEvent(
    Event& event,
    const OpenRegStream& stream,
    bool timed) {
  if (!event.eventId()) {
    const unsigned flags = timed ? orEventEnableTiming : orEventDisableTiming;
    const DeviceIndex device = stream.device_index();
    adoptEvent(event, createEvent(device, flags), device);
  }
  const auto handle = static_cast<orEvent_t>(event.eventId());
  OPENREG_CHECK(orEventRecordWithFlags(handle, stream, orEventRecordExternal));
  observe(&RuntimeObserver::onExternalRecord, handle, stream.stream());
}

void waitForExternalEvent(const Event& event, const OpenRegStream& stream) {
  const auto handle = static_cast<orEvent_t>(event.eventId());
  OPENREG_CHECK(orStreamWaitEvent(stream, handle, orEventWaitExternal));
  observe(&RuntimeObserver::onExternalWait, stream.stream(), handle);
}

} // namespace c10::openreg
