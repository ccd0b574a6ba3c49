#include "runtime/OpenRegGuard.h"

#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegIpc.h"
#include "runtime/OpenRegThreads.h"

#include <utility>

namespace c10::openreg {
namespace {

Device makeDevice(DeviceIndex index) {
  return Device(OpenRegGuardImpl::static_type, index);
}

orEvent_t handleOf(void* event) {
  return static_cast<orEvent_t>(event);
}

// What the next record of an event without handle takes instead of recording.
thread_local orEvent_t adopted = nullptr;

} // namespace

// --- devices ------------------------------------------------------------------

Device OpenRegGuardImpl::exchangeDevice(Device device) const {
  TORCH_INTERNAL_ASSERT(device.type() == static_type);
  return makeDevice(ExchangeDevice(device.index()));
}

Device OpenRegGuardImpl::getDevice() const {
  return makeDevice(current_device());
}

void OpenRegGuardImpl::setDevice(Device device) const {
  TORCH_INTERNAL_ASSERT(device.type() == static_type);
  set_device(device.index());
}

// docs:begin unchecked-set-device
// Runs in destructors, so a failure warns.
void OpenRegGuardImpl::uncheckedSetDevice(Device device) const noexcept {
  OPENREG_CHECK_WARN(orSetDevice(device.index()));
}
// docs:end unchecked-set-device

DeviceIndex OpenRegGuardImpl::deviceCount() const noexcept {
  return device_count();
}

DeviceCapability OpenRegGuardImpl::getDeviceCapability(Device device) const {
  if (device.has_index()) {
    check_device_index(device.index());
  }
  return DeviceCapability(); // every dtype, as on the CPU
}

void OpenRegGuardImpl::synchronizeDevice(DeviceIndex device) const {
  const OpenRegGuard guard(makeDevice(device_or_current(device)));
  device_synchronize();
}

// --- streams ------------------------------------------------------------------

// Autograd asks for it on the thread that calls backward().
Stream OpenRegGuardImpl::getStream(Device device) const {
  noteThreadsForBackward();
  return getCurrentOpenRegStream(device.index());
}

Stream OpenRegGuardImpl::getDefaultStream(Device device) const {
  return getDefaultOpenRegStream(device.index());
}

Stream OpenRegGuardImpl::getNewStream(Device device, int priority) const {
  return getStreamFromPool(priority, device.index());
}

Stream OpenRegGuardImpl::getStreamFromGlobalPool(
    Device device,
    bool isHighPriority) const {
  return getStreamFromPool(isHighPriority, device.index());
}

// Autograd changes to the stream of each node. Its threads would keep the number of
// threads for kernels that they began with, whatever torch.set_num_threads() says
// later; the same backward on the CPU runs in the caller's thread and follows.
Stream OpenRegGuardImpl::exchangeStream(Stream stream) const {
  useThreadsOfBackward();
  return exchangeCurrentStream(stream);
}

void* OpenRegGuardImpl::getStreamNativeHandle(Stream stream) const {
  return OpenRegStream(stream).stream();
}

bool OpenRegGuardImpl::queryStream(const Stream& stream) const {
  return OpenRegStream(stream).query();
}

void OpenRegGuardImpl::synchronizeStream(const Stream& stream) const {
  OpenRegStream(stream).synchronize();
}

void OpenRegGuardImpl::recordDataPtrOnStream(
    const DataPtr& data,
    const Stream& stream) const {
  getOpenRegDeviceAllocator().recordStream(data, stream);
}

// --- events -------------------------------------------------------------------

void OpenRegGuardImpl::destroyEvent(void* event, DeviceIndex /*device*/)
    const noexcept {
  if (event) {
    OPENREG_CHECK_WARN(orEventDestroy(handleOf(event)));
  }
}

void OpenRegGuardImpl::record(
    void** event,
    const Stream& stream,
    DeviceIndex device,
    EventFlag flag) const {
  TORCH_CHECK(
      device == -1 || device == stream.device_index(),
      "Event device index ",
      static_cast<int>(device),
      " does not match recording stream's device index ",
      static_cast<int>(stream.device_index()),
      ".");
  const OpenRegStream recording(stream);
  if (!*event && adopted) {
    *event = std::exchange(adopted, nullptr);
    return;
  }
  if (!*event) {
    const OpenRegGuard guard(stream.device());
    orEvent_t created = nullptr;
    OPENREG_CHECK(orEventCreateWithFlags(
        &created,
        flag == EventFlag::BACKEND_DEFAULT ? orEventEnableTiming
                                           : orEventDisableTiming));
    *event = created;
  }
  OPENREG_CHECK(orEventRecord(handleOf(*event), recording));
}

// An event of PyTorch takes a handle from its first record only. To be recorded is
// also what makes it ask libopenreg when it is waited for.
void adoptEvent(Event& event, orEvent_t handle, DeviceIndex device) {
  adopted = handle;
  event.record(getDefaultOpenRegStream(device));
}

void OpenRegGuardImpl::block(void* event, const Stream& stream) const {
  if (event) {
    OPENREG_CHECK(orStreamWaitEvent(OpenRegStream(stream), handleOf(event), 0));
  }
}

bool OpenRegGuardImpl::queryEvent(void* event) const {
  return queryHandle(handleOf(event));
}

void OpenRegGuardImpl::synchronizeEvent(void* event) const {
  if (event) {
    OPENREG_CHECK(orEventSynchronize(handleOf(event)));
  }
}

double OpenRegGuardImpl::elapsedTime(
    void* start,
    void* end,
    DeviceIndex /*device*/) const {
  float milliseconds = 0;
  OPENREG_CHECK(
      orEventElapsedTime(&milliseconds, handleOf(start), handleOf(end)));
  return milliseconds;
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, OpenRegGuardImpl)

} // namespace c10::openreg
