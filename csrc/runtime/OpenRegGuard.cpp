#include "runtime/OpenRegGuard.h"

#include "runtime/OpenRegCapture.h"
#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegThreads.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace c10::openreg {
namespace {

Device makeDevice(DeviceIndex index) {
  return Device(OpenRegGuardImpl::static_type, index);
}

orEvent_t handleOf(void* event) {
  return static_cast<orEvent_t>(event);
}

// docs:begin adopted-event
// An event of PyTorch gets its handle when it is first recorded. To give it a handle that
// exists already, it is recorded in a stream that does not exist: the stream's id is the
// complement of the handle, a negative number, which no stream has.
StreamId idToAdopt(orEvent_t event) {
  return ~reinterpret_cast<StreamId>(event);
}

orEvent_t eventToAdopt(const Stream& stream) {
  if (C10_LIKELY(stream.id() >= 0)) {
    return nullptr;
  }
  const auto event = reinterpret_cast<orEvent_t>(~stream.id());
  const RelaxedCapture relaxed; // the query must not disturb a capture
  const bool exists = orEventQuery(event) != orErrorInvalidHandle;
  orGetLastError(); // an id made up in Python names nothing
  return exists ? event : nullptr;
}
// docs:end adopted-event

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

bool OpenRegGuardImpl::isStreamCapturing(const Stream& stream) const {
  return isCapturing(OpenRegStream(stream));
}

void OpenRegGuardImpl::recordDataPtrOnStream(
    const DataPtr& data,
    const Stream& stream) const {
  c10::getDeviceAllocator(static_type)->recordStream(data, stream);
}

// --- events -------------------------------------------------------------------

void OpenRegGuardImpl::destroyEvent(void* event, DeviceIndex /*device*/)
    const noexcept {
  if (event) {
    openreg::destroyEvent(handleOf(event));
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
  if (!*event) {
    if (const orEvent_t adopted = eventToAdopt(stream)) {
      *event = adopted;
      return;
    }
    *event = createEvent(
        stream.device_index(),
        flag == EventFlag::BACKEND_DEFAULT ? orEventEnableTiming
                                           : orEventDisableTiming);
  }
  recordEvent(handleOf(*event), recording);
}

void adoptEvent(Event& event, orEvent_t handle, DeviceIndex device) {
  event.record(Stream(Stream::UNSAFE, makeDevice(device), idToAdopt(handle)));
}

void OpenRegGuardImpl::block(void* event, const Stream& stream) const {
  if (event) {
    waitForEvent(OpenRegStream(stream), handleOf(event));
  }
}

bool OpenRegGuardImpl::queryEvent(void* event) const {
  return !event || openreg::queryEvent(handleOf(event));
}

void OpenRegGuardImpl::synchronizeEvent(void* event) const {
  if (event) {
    openreg::synchronizeEvent(handleOf(event));
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

static const c10::impl::DeviceGuardImplRegistrar registerGuard(
    kDeviceType,
    new OpenRegGuardImpl);

} // namespace c10::openreg
