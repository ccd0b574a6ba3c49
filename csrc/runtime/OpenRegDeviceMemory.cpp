#include "runtime/OpenRegDeviceMemory.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegCapture.h"
#include "runtime/OpenRegPluggedSegments.h"
#include "runtime/OpenRegRunningHere.h"

#include <memory>

namespace c10::openreg {
namespace {

// Memory for what is being captured: it is not part of the graph itself.
std::unique_ptr<RelaxedCapture> relaxedFor(void* stream) {
  return isCapturing(static_cast<orStream_t>(stream))
      ? std::make_unique<RelaxedCapture>()
      : nullptr;
}

/// An openreg device as the pool sees it.
class PoolDevice final : public BlockDevice {
 public:
  explicit PoolDevice(int index) : index_(index) {}

  void* mapSegment(size_t bytes, Stream stream) override {
    const auto relaxed = relaxedFor(stream);
    return mallocOn(index_, bytes);
  }
  void unmapSegment(void* segment) override {
    if (!unmapPluggedSegment(segment)) {
      OPENREG_CHECK_WARN(orFree(segment));
    }
  }

  // As on CUDA a range is somewhat larger than the device, so that one is enough. Other
  // streams and pools have less when addresses run short.
  std::pair<void*, size_t> reserveRange(size_t bytes, size_t unit) override {
    const DeviceScope scope(index_);
    size_t total = 0;
    OPENREG_CHECK(orMemGetInfo(nullptr, &total));
    for (const size_t most : {total + total / 8, total / 8, bytes}) {
      const size_t size = most / unit * unit;
      void* range = nullptr;
      if (size >= bytes && orMemAddressReserve(&range, size) == orSuccess) {
        return {range, size};
      }
    }
    orGetLastError(); // a plain segment is tried next
    return {nullptr, 0};
  }
  void releaseRange(void* range, size_t bytes) override {
    OPENREG_CHECK_WARN(orMemAddressFree(range, bytes));
  }
  bool mapRange(void* pointer, size_t bytes, size_t unit, Stream stream)
      override {
    const auto relaxed = relaxedFor(stream);
    return mapOn(index_, pointer, bytes, unit);
  }
  void unmapRange(void* pointer, size_t bytes) override {
    OPENREG_CHECK_WARN(orMemUnmap(pointer, bytes));
  }

  void checkUsable() override {
    orStream_t stream = nullptr;
    OPENREG_CHECK(orDeviceGetDefaultStream(&stream, index_));
    (void)OPENREG_IS_READY(orStreamQuery(stream));
  }

  // The stream may have been destroyed and the device may be broken: then there
  // is nothing to wait for, and free() must not throw.
  Event record(Stream stream) override {
    int device = index_;
    orStreamGetDevice(static_cast<orStream_t>(stream), &device);
    const DeviceScope scope(device);
    orEvent_t event = nullptr;
    if (orEventCreateWithFlags(&event, orEventDisableTiming) == orSuccess &&
        orEventRecord(event, static_cast<orStream_t>(stream)) == orSuccess) {
      return event;
    }
    orGetLastError();
    destroy(event);
    return nullptr;
  }
  bool finished(Event event) override {
    return OPENREG_IS_READY(orEventQuery(static_cast<orEvent_t>(event)));
  }
  // A broken device runs nothing any more; its next user hears of it.
  void wait(Event event) override {
    if (orEventSynchronize(static_cast<orEvent_t>(event)) != orSuccess) {
      orGetLastError();
    }
  }
  void destroy(Event event) override {
    if (event) {
      OPENREG_CHECK_WARN(orEventDestroy(static_cast<orEvent_t>(event)));
    }
  }
  bool runsElsewhere(Stream stream) override {
    return openreg::runsElsewhere(static_cast<orStream_t>(stream));
  }
  std::pair<size_t, size_t> memoryInfo() override {
    return DeviceMemory::infoOf(index_);
  }

 private:
  const int index_;
};

} // namespace

std::array<std::atomic<DeviceMemory*>, kMaxDevices> DeviceMemory::all_{};
std::atomic<size_t> DeviceMemory::redZone_{0};

DeviceMemory::DeviceMemory(int device, const PoolConfig& config)
    : device_(device),
      blockDevice_(std::make_unique<PoolDevice>(device)),
      pool_(*blockDevice_, config) {}

DeviceMemory& DeviceMemory::make(int device, const PoolConfig& config) {
  DeviceMemory* before = nullptr;
  std::unique_ptr<DeviceMemory> made(new DeviceMemory(device, config));
  made->pool_.quarantineFreedBlocks(redZone() != 0);
  return all_[static_cast<size_t>(device)].compare_exchange_strong(
             before, made.get())
      ? *made.release()
      : *before;
}

void DeviceMemory::guardBlocks(bool on) {
  constexpr size_t kRedZone = 64;
  redZone_ = on ? kRedZone : 0;
  forEach(
      [&](DeviceMemory& memory) { memory.pool_.quarantineFreedBlocks(on); });
}

bool DeviceMemory::isRefusedByPlan() {
  const orFault fault = askFaultPlan(orFaultSiteAlloc, nullptr, device_);
  if (fault.kind == orFaultLost) {
    OPENREG_CHECK(orDeviceFail(device_, orErrorDeviceLost, fault.rule));
    blockDevice_->checkUsable();
  }
  return fault.kind == orFaultOom;
}

void DeviceMemory::plugPool(PoolId id, const PluggedAllocator& allocator) {
  const auto map = [allocator, device = device_](size_t bytes, void* stream) {
    const auto relaxed = relaxedFor(stream);
    return mapPluggedSegment(
        allocator, bytes, device, static_cast<orStream_t>(stream));
  };
  pool_.setSource(id, map);
}

void DeviceMemory::lose() {
  std::vector<const void*> allocations = uncachedOn(device_);
  for (const auto& segment : pool_.snapshot()) {
    for (const auto& block : segment.blocks) {
      if (block.state == PoolBlockInfo::ActiveAllocated) {
        allocations.push_back(reinterpret_cast<const void*>(block.address));
      }
    }
  }
  loseMemory(device_, allocations);
}

std::pair<size_t, size_t> DeviceMemory::infoOf(int device) {
  const DeviceScope scope(device);
  size_t free = 0, total = 0;
  OPENREG_CHECK(orMemGetInfo(&free, &total));
  return {free, total};
}

void DeviceMemory::setFraction(double fraction) {
  const auto total = static_cast<double>(infoOf(device_).second);
  pool_.setLimit(
      fraction == 1 ? SIZE_MAX : static_cast<size_t>(fraction * total));
  fraction_ = fraction;
}

} // namespace c10::openreg
