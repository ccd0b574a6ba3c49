#include "graphs/ExternalEvent.h"

#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegGuard.h"

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
  OPENREG_CHECK(orEventRecordWithFlags(
      static_cast<orEvent_t>(event.eventId()), stream, orEventRecordExternal));
}

void waitForExternalEvent(const Event& event, const OpenRegStream& stream) {
  OPENREG_CHECK(orStreamWaitEvent(
      stream, static_cast<orEvent_t>(event.eventId()), orEventWaitExternal));
}

} // namespace c10::openreg
