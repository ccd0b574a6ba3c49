// The guard with streams and events, and hooks with pinned memory.
#pragma once

#include "hooks.h"
#include "runtime.h"

#include <ATen/core/CachingHostAllocator.h>

namespace mini {

struct StreamGuard : MiniGuard {
  DeviceCapability getDeviceCapability(Device /*device*/) const override {
    return {}; // every dtype, through the fallback
  }
  // --- streams ---
  Stream getStream(Device device) const override {
    const int index = indexOf(device);
    return makeStream(index, miniCurrentStreams.at(index));
  }
  Stream getDefaultStream(Device device) const override {
    return makeStream(indexOf(device), 0);
  }
  Stream getNewStream(Device device, int /*priority*/ = 0) const override {
    static std::atomic<int64_t> next{0};
    return makeStream(indexOf(device), 1 + next++ % (kStreams - 1));
  }
  Stream getStreamFromGlobalPool(Device device, bool /*high*/ = false)
      const override {
    return getNewStream(device);
  }
  Stream exchangeStream(Stream stream) const override {
    const Stream before = getStream(stream.device());
    streamOf(stream); // throws for one of another backend
    miniCurrentStreams.at(stream.device_index()) = stream.id();
    return before;
  }
  bool queryStream(const Stream& stream) const override {
    return streamOf(stream).isDone(streamOf(stream).last());
  }
  void synchronizeStream(const Stream& stream) const override {
    streamOf(stream).wait();
  }
  bool isStreamCapturing(const Stream& stream) const override {
    return streamOf(stream).isCapturing();
  }
  void synchronizeDevice(DeviceIndex index) const override {
    miniWaitForDevice(indexOf(Device(type(), index)));
  }
  // Memory is freed when all streams are done, whoever uses it.
  void recordDataPtrOnStream(const DataPtr& /*data*/, const Stream& /*stream*/)
      const override {}

  // --- events: `event` is a MiniEvent, made by the first record() ---
  void record(
      void** event,
      const Stream& stream,
      DeviceIndex index,
      EventFlag /*flag*/) const override {
    TORCH_CHECK(
        index == -1 || index == stream.device_index(),
        "an event of mini:",
        index,
        " cannot be recorded in a stream of mini:",
        stream.device_index());
    auto made = std::make_unique<MiniEvent>(streamOf(stream));
    destroyEvent(std::exchange(*event, made.release()), index);
  }
  void destroyEvent(void* event, DeviceIndex /*index*/)
      const noexcept override {
    delete static_cast<MiniEvent*>(event);
  }
  void block(void* event, const Stream& stream) const override {
    if (event) {
      streamOf(stream).push([on = *static_cast<MiniEvent*>(event)] {
        on.stream->wait(on.number);
      });
    }
  }
  bool queryEvent(void* event) const override {
    const auto* made = static_cast<MiniEvent*>(event);
    return !made || made->stream->isDone(made->number);
  }
  void synchronizeEvent(void* event) const override {
    if (const auto* made = static_cast<MiniEvent*>(event)) {
      made->stream->wait(made->number);
    }
  }
  double elapsedTime(void* from, void* to, DeviceIndex /*index*/)
      const override {
    TORCH_CHECK(
        from && to, "both events must be recorded before their time is asked");
    TORCH_CHECK(
        queryEvent(from) && queryEvent(to),
        "both events must have happened: call synchronize() first");
    const auto time = *static_cast<MiniEvent*>(to)->reached -
        *static_cast<MiniEvent*>(from)->reached;
    return std::chrono::duration<double, std::milli>(time).count();
  }

 private:
  static int indexOf(Device device) {
    const int index = device.has_index() ? device.index() : miniCurrentDevice;
    TORCH_CHECK(
        index < kDevices, "no ", device, ": there are ", kDevices, " devices");
    return index;
  }
  static Stream makeStream(int index, int64_t id) {
    const Device device(kPrivateUse1, static_cast<DeviceIndex>(index));
    return Stream(Stream::UNSAFE, device, id);
  }
  static MiniStream& streamOf(const Stream& stream) {
    const auto device = stream.device();
    TORCH_CHECK(
        device.is_privateuseone() && stream.id() >= 0 && stream.id() < kStreams,
        "not a stream of mini: ",
        stream);
    return miniStream(device.index(), stream.id());
  }
};

struct PinnedAllocator final : at::HostAllocator {
  DataPtr allocate(size_t bytes) override {
    void* data = bytes > 0 ? MiniPinned::instance().allocate(bytes) : nullptr;
    return {data, data, &release, kCPU};
  }
  DeleterFnPtr raw_deleter() const override {
    return &release;
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  // Freeing waits for all streams, and nothing is cached.
  bool record_event(void* data, void* /*context*/, Stream /*stream*/) override {
    return miniIsPinned(data);
  }
  void empty_cache() override {}
  at::HostStats get_stats() override {
    at::HostStats stats;
    const auto [count, bytes] = MiniPinned::instance().inUse();
    stats.allocations.increase(count);
    stats.allocated_bytes.increase(bytes);
    stats.active_requests = stats.allocations;
    stats.active_bytes = stats.allocated_bytes;
    return stats;
  }
  // There are only figures of the moment.
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

 private:
  static void release(void* address) {
    if (address) {
      MiniPinned::instance().free(address);
    }
  }
};
inline PinnedAllocator pinnedAllocator;

struct PinnedHooks : MiniHooks {
  Allocator* getPinnedMemoryAllocator() const override {
    return &pinnedAllocator;
  }
  bool isPinnedPtr(const void* data) const override {
    return miniIsPinned(data);
  }
};

} // namespace mini
