// Device memory that is kept when tensors go: the block pool of csrc/pool, which
// needs only the standard library, over the driver's allocations.
#pragma once

#include "streams.h"

#include "runtime/pool/BlockPool.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace mini {

using c10::openreg::BlockDevice;
using c10::openreg::BlockPool;
using c10::openreg::PoolStat;
using c10::openreg::PoolStats;

/// What the pool asks of a device. A pool's stream is a MiniStream.
class DriverMemory final : public BlockDevice {
 public:
  void* mapSegment(size_t bytes, Stream /*stream*/) override {
    if (used_ + bytes > kMiniMemory) {
      return nullptr;
    }
    void* segment = miniMalloc(bytes);
    if (segment) {
      const std::lock_guard lock(mutex_);
      used_ += bytes;
      sizes_[segment] = bytes;
    }
    return segment;
  }
  void unmapSegment(void* segment) override {
    miniFree(segment); // waits for all work
    const std::lock_guard lock(mutex_);
    used_ -= sizes_.at(segment);
    sizes_.erase(segment);
  }
  Event record(Stream stream) override {
    return new MiniEvent(*static_cast<MiniStream*>(stream));
  }
  bool finished(Event event) override {
    const auto* made = static_cast<MiniEvent*>(event);
    return made->stream->isDone(made->number);
  }
  void wait(Event event) override {
    const auto* made = static_cast<MiniEvent*>(event);
    made->stream->wait(made->number);
  }
  void destroy(Event event) override {
    delete static_cast<MiniEvent*>(event);
  }
  std::pair<size_t, size_t> memoryInfo() override {
    return {kMiniMemory - used_, kMiniMemory};
  }

 private:
  std::mutex mutex_;
  std::map<void*, size_t> sizes_;
  std::atomic<size_t> used_ = 0;
};

/// The memory of one device.
struct DevicePool {
  DriverMemory memory;
  BlockPool pool{memory};

  /// Tensors may be freed while the process ends, so it stays.
  static DevicePool& of(DeviceIndex index) {
    static auto* pools = new std::array<DevicePool, kDevices>;
    TORCH_CHECK(
        index >= 0 && index < kDevices,
        "no mini:",
        static_cast<int>(index),
        ": there are ",
        kDevices,
        " devices");
    return pools->at(index);
  }
};

struct CachingMemory final : DeviceAllocator {
  DataPtr allocate(size_t bytes) override {
    const auto index = static_cast<DeviceIndex>(miniCurrentDevice);
    const Device device(DeviceType::PrivateUse1, index);
    if (bytes == 0) {
      return {nullptr, device};
    }
    DevicePool& own = DevicePool::of(index);
    void* data = own.pool.allocate(bytes, &miniCurrentStream());
    const auto [free, total] = own.memory.memoryInfo();
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        data,
        "mini out of memory. Tried to allocate ",
        bytes,
        " bytes on ",
        device,
        ", where ",
        free,
        " of ",
        total,
        " are free");
    return {data, data, &release, device};
  }
  DeleterFnPtr raw_deleter() const override {
    return &release;
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    miniMemcpy(to, from, bytes);
  }

  bool initialized() override {
    return true;
  }
  void emptyCache(MempoolId_t pool = {0, 0}) override {
    for (DeviceIndex i = 0; i < kDevices; ++i) {
      DevicePool::of(i).pool.emptyCache(pool);
    }
  }
  void recordStream(const DataPtr& data, c10::Stream stream) override {
    if (data.get()) {
      auto& used = miniStream(stream.device_index(), stream.id());
      DevicePool::of(data.device().index())
          .pool.recordStream(data.get(), &used);
    }
  }
  CachingDeviceAllocator::DeviceStats getDeviceStats(
      DeviceIndex index) override {
    const PoolStats from = DevicePool::of(index).pool.stats();
    CachingDeviceAllocator::DeviceStats to;
    const std::pair<const PoolStats::Array*, CachingAllocator::StatArray*>
        pairs[] = {
            {&from.allocation, &to.allocation},
            {&from.segment, &to.segment},
            {&from.active, &to.active},
            {&from.inactiveSplit, &to.inactive_split},
            {&from.allocatedBytes, &to.allocated_bytes},
            {&from.reservedBytes, &to.reserved_bytes},
            {&from.activeBytes, &to.active_bytes},
            {&from.inactiveSplitBytes, &to.inactive_split_bytes},
            {&from.requestedBytes, &to.requested_bytes}};
    for (const auto& [source, target] : pairs) {
      for (size_t i = 0; i < source->size(); ++i) {
        const PoolStat& stat = (*source)[i];
        (*target)[i] = {stat.current, stat.peak, stat.allocated, stat.freed};
      }
    }
    to.num_alloc_retries = from.retries;
    to.num_ooms = from.outOfMemory;
    to.num_device_alloc = from.maps;
    to.num_device_free = from.unmaps;
    return to;
  }
  void resetAccumulatedStats(DeviceIndex index) override {
    DevicePool::of(index).pool.resetAccumulatedStats();
  }
  void resetPeakStats(DeviceIndex index) override {
    DevicePool::of(index).pool.resetPeakStats();
  }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex index) override {
    return DevicePool::of(index).memory.memoryInfo();
  }

 private:
  // The address alone says nothing of the device: ask each.
  static void release(void* data) {
    for (DeviceIndex i = 0; data && i < kDevices; ++i) {
      if (DevicePool::of(i).pool.free(data)) {
        return;
      }
    }
  }
};

struct CachingGuard : StreamGuard {
  void recordDataPtrOnStream(const DataPtr& data, const Stream& stream)
      const override {
    auto* memory = GetAllocator(DeviceType::PrivateUse1);
    static_cast<CachingMemory*>(memory)->recordStream(data, stream);
  }
};

} // namespace mini
