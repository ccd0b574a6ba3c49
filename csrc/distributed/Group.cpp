#include "distributed/Group.h"

#include "runtime/OpenRegDeviceScope.h"
#include "runtime/OpenRegObserver.h"

#include <c10/util/Exception.h>

namespace c10::openreg::occl {

std::string Group::name() const {
  const std::lock_guard lock(mutex_);
  return name_;
}

void Group::setName(const std::string& name) {
  const std::lock_guard lock(mutex_);
  name_ = name;
}

void Group::fail(const std::string& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) {
      return;
    }
    failure_ = why;
    failed_.store(true, std::memory_order_release);
  }
  fails_.notify_all();
  if (transport_) {
    transport_->abort(why);
  }
}

void Group::passLinks(const char* kind, const Traffic& traffic, Moment ready) {
  const double seconds = network_->seconds(traffic);
  TrafficLedger::instance().add({name(), size, kind}, traffic, seconds);
  const auto time = std::chrono::duration_cast<Moment::duration>(
      std::chrono::duration<double>(seconds));
  std::unique_lock lock(mutex_);
  fails_.wait_until(lock, ready + time, [this] { return failed(); });
}

void Group::check() const {
  if (C10_LIKELY(!failed())) {
    return;
  }
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_WITH(
      DistBackendError,
      false,
      "the group '",
      name_,
      "' has failed and cannot be used any more: ",
      failure_,
      ". Destroy it, with torch.distributed.destroy_process_group(), and make "
      "another one");
}

OpenRegStream Group::streamFor(const Lane& lane, bool highPriority) {
  const std::lock_guard lock(mutex_);
  orStream_t& stream = streams_[lane];
  if (!stream) {
    const DeviceScope scope(lane.device);
    OPENREG_CHECK(orStreamCreateWithPriority(
        &stream, orStreamNonBlocking, highPriority ? -1 : 0));
  }
  return getStreamFromExternal(stream, lane.device);
}

void Group::followOtherDevices(const OpenRegStream& stream) {
  if (last_ && !(*last_ == stream)) {
    OpenRegEvent before;
    before.record(*last_);
    before.block(stream);
  }
  last_ = stream;
}

void Group::finish() const {
  std::unique_lock lock(mutex_);
  const auto streams = streams_;
  lock.unlock();
  for (const auto& [lane, stream] : streams) {
    OPENREG_CHECK(orStreamSynchronize(stream));
    observe(&RuntimeObserver::onHostWaitForStream, stream);
  }
}

void Group::settle() const noexcept {
  try {
    finish();
  } catch (const std::exception&) {
    orGetLastError(); // those who asked for results were told, or will not ask
  }
}

Group::~Group() {
  for (const auto& [lane, stream] : streams_) {
    if (stream) {
      OPENREG_CHECK_WARN(orStreamDestroy(stream));
    }
  }
}

} // namespace c10::openreg::occl
