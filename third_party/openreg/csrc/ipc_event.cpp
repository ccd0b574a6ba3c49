#include "ipc_event.h"

#include "openreg/ipc.h"

#include "device.h"
#include "event.h"
#include "runtime.h"
#include "submit.h"

#include <bit>

namespace openreg::ipc {

uint64_t EventState::begin() const {
  static const os::Process self = os::thisProcess();
  object_->recorder.store(self.number);
  object_->recorderStarted.store(self.started);
  return object_->recorded.fetch_add(1) + 1;
}

void EventState::finish(uint64_t record) const {
  uint64_t before = object_->finished.load();
  while (before < record &&
         !object_->finished.compare_exchange_weak(before, record)) {
  }
  object_->word.fetch_add(1);
  os::unparkAllShared(object_->word);
}

Fate EventState::fateOf(uint64_t record) const {
  // The owner ends an event when its own records have finished; the place may
  // then belong to another.
  const auto done = [&] {
    return object_->finished.load(std::memory_order_acquire) >= record ||
        object_->stamp.load() != stamp_;
  };
  if (done()) {
    return Fate::Done;
  }
  if (os::isAlive(
          {object_->recorder.load(), object_->recorderStarted.load()})) {
    return Fate::Pending;
  }
  return done() ? Fate::Done
                : Fate::Lost; // it may have finished before it ended
}

} // namespace openreg::ipc

using namespace openreg;

orError_t orIpcGetEventHandle(orIpcEventHandle_t* handle, orEvent_t event) {
  return api("orIpcGetEventHandle", [&](Runtime& runtime) {
    if (!handle) {
      return fail(orErrorInvalidValue, "handle must not be NULL");
    }
    const Event* found = runtime.events.find(event);
    if (!found) {
      return failOnEvent(event);
    }
    const ipc::EventState state = found->shared();
    if (!state) {
      return fail(
          orErrorInvalidValue,
          "the event was created without orEventInterprocess");
    }
    if (found->opened()) {
      return fail(
          orErrorInvalidHandle,
          "the event was opened with orIpcOpenEventHandle(); only the process "
          "that created it may share it");
    }
    *handle = std::bit_cast<orIpcEventHandle_t>(
        runtime.shared.handleOf(ipc::Kind::Event, state.object()));
    return orSuccess;
  });
}

orError_t orIpcOpenEventHandle(orEvent_t* event, orIpcEventHandle_t handle) {
  return api("orIpcOpenEventHandle", [&](Runtime& runtime) {
    if (!event) {
      return fail(orErrorInvalidValue, "event must not be NULL");
    }
    Device& device = runtime.currentDevice();
    if (const orError_t status = device.check(); status != orSuccess) {
      return status;
    }
    const auto shared =
        ipc::open(ipc::Kind::Event, std::bit_cast<ipc::Handle>(handle));
    if (!shared) {
      return orPeekAtLastError();
    }
    const orEvent_t opened = runtime.events.create([&](Event& made) {
      made.open(device, orEventInterprocess, ipc::EventState(shared), true);
    });
    if (!opened) {
      return failOnTooManyEvents();
    }
    *event = opened;
    return orSuccess;
  });
}
