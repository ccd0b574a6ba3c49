#include "runtime/ipc/SharedEvent.h"

#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegGuard.h"
#include "runtime/ipc/Message.h"

namespace c10::openreg::ipc {

void createSharedEvent(Event& event, DeviceIndex device, bool timed) {
  const unsigned flags = orEventInterprocess |
      (timed ? orEventEnableTiming : orEventDisableTiming);
  adoptEvent(event, createEvent(device, flags), device);
}

std::string shareEvent(const Event& event) {
  orIpcEventHandle_t handle;
  OPENREG_CHECK(
      orIpcGetEventHandle(&handle, static_cast<orEvent_t>(event.eventId())));
  return toBytes(handle);
}

void openSharedEvent(
    Event& event,
    DeviceIndex device,
    const std::string& handle) {
  const DeviceScope scope(device);
  orEvent_t opened = nullptr;
  OPENREG_CHECK(orIpcOpenEventHandle(
      &opened, fromBytes<orIpcEventHandle_t>(handle, "orIpcEventHandle_t")));
  adoptEvent(event, opened, device);
}

} // namespace c10::openreg::ipc
