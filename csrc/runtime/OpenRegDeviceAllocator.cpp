#include "runtime/OpenRegDeviceAllocator.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegAllocatorConfig.h"
#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegGuard.h"
#include "runtime/OpenRegIpc.h"
#include "runtime/OpenRegLostMemory.h"
#include "runtime/OpenRegRunningHere.h"
#include "runtime/OpenRegSubmit.h"
#include "runtime/OpenRegUncachedMemory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

namespace c10::openreg {
namespace {

/// An openreg device as the pool sees it.
class PoolDevice final : public BlockDevice {
 public:
  explicit PoolDevice(DeviceIndex index) : index_(index) {}

  void* mapSegment(size_t bytes) override {
    const OpenRegGuard guard(index_);
    void* pointer = nullptr;
    const orError_t status = orMalloc(&pointer, bytes);
    if (status == orErrorMemoryAllocation) {
      orGetLastError(); // the pool's caller makes an exception of it
      return nullptr;
    }
    OPENREG_CHECK(status);
    noteAddresses(pointer, bytes);
    return pointer;
  }
  void unmapSegment(void* segment) override {
    OPENREG_CHECK_WARN(orFree(segment));
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
    const OpenRegGuard guard(static_cast<DeviceIndex>(device));
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
    return queryHandle(static_cast<orEvent_t>(event));
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
    return getOpenRegDeviceAllocator().getMemoryInfo(index_);
  }

 private:
  const DeviceIndex index_;
};

struct Memory {
  explicit Memory(DeviceIndex index)
      : device(index), pool(device, poolConfig()) {}

  PoolDevice device;
  BlockPool pool;
  std::atomic<double> fraction{1};
};

std::atomic<CachingDeviceAllocator::CreateContextFn> contextRecorder{nullptr};

// Where in the program this happens, if the pool's history wants to know.
PoolContext contextFor(const BlockPool& pool, PoolRecord kind) {
  if (C10_LIKELY(!pool.shouldGather(kind))) {
    return nullptr;
  }
  const auto gather = contextRecorder.load();
  return gather ? PoolContext(gather()) : nullptr;
}

// Made on first use and never destroyed: tensors may outlive static destructors.
std::array<std::atomic<Memory*>, kMaxDevices> memories{};

Memory& makeMemory(DeviceIndex device) {
  TORCH_CHECK(
      device >= 0 && device < device_count(),
      "Invalid device argument ",
      static_cast<int>(device),
      ": did you call init? There are ",
      static_cast<int>(device_count()),
      " openreg devices.");
  Memory* before = nullptr;
  auto made = std::make_unique<Memory>(device);
  return memories[device].compare_exchange_strong(before, made.get())
      ? *made.release()
      : *before; // another thread was first
}

Memory& memoryOf(DeviceIndex device) {
  if (C10_LIKELY(device >= 0 && device < kMaxDevices)) {
    if (Memory* memory = memories[device].load(std::memory_order_acquire)) {
      return *memory;
    }
  }
  return makeMemory(device);
}

// docs:begin deleters
// A DataPtr's context is the pointer itself, as raw_allocate() asks for. So that
// no look-up is needed to find the device, each device has a deleter of its own.
template <int device>
void deletePointer(void* pointer) {
  if (!pointer) {
    return;
  }
  forgetLost(pointer);
  BlockPool& pool = memoryOf(device).pool;
  if (!pool.free(pointer, contextFor(pool, PoolRecord::All)) &&
      !freeUncached(pointer)) {
    warnQuietly(
        c10::str("openreg:", device, " has no allocation at ", pointer));
  }
}

template <int... devices>
constexpr std::array<DeleterFnPtr, sizeof...(devices)> makeDeleters(
    std::integer_sequence<int, devices...> /*unused*/) {
  return {&deletePointer<devices>...};
}
constexpr auto kDeleters =
    makeDeleters(std::make_integer_sequence<int, kMaxDevices>());
// docs:end deleters

DataPtr makeDataPtr(void* pointer, DeviceIndex device) {
  return {
      pointer,
      pointer,
      kDeleters[device],
      Device(DeviceType::PrivateUse1, device)};
}

// Raw pointers do not tell their device.
void deleteRawPointer(void* pointer) {
  if (pointer) {
    kDeleters[deviceOfPointer(pointer)](pointer);
  }
}

[[noreturn]] void throwOutOfMemory(
    BlockPool& pool,
    size_t nbytes,
    DeviceIndex device,
    std::pair<size_t, size_t> info) {
  const PoolStats stats = pool.stats();
  using CachingAllocator::format_size;
  const auto allocated =
      static_cast<uint64_t>(stats.allocatedBytes[PoolStats::All].current);
  const auto reserved =
      static_cast<uint64_t>(stats.reservedBytes[PoolStats::All].current);
  const double fraction = memoryOf(device).fraction;
  const std::string allowed = fraction == 1
      ? ""
      : format_size(static_cast<uint64_t>(
            fraction * static_cast<double>(info.second))) +
          " allowed; ";
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      false,
      "OpenReg out of memory. Tried to allocate ",
      format_size(pool.segmentSizeFor(nbytes)),
      ". GPU ",
      static_cast<int>(device),
      " has a total capacity of ",
      format_size(info.second),
      " of which ",
      format_size(info.first),
      " is free. Including non-PyTorch memory, this process has ",
      format_size(info.second - info.first),
      " memory in use. ",
      allowed,
      "Of the allocated memory ",
      format_size(allocated),
      " is allocated by PyTorch, and ",
      format_size(reserved - allocated),
      " is reserved by PyTorch but unallocated. The capacity is simulated: "
      "OPENREG_DEVICE_MEMORY or OPENREG_DEVICE_PROFILE sets it.");
}

} // namespace

// --- c10::Allocator -----------------------------------------------------------

DataPtr OpenRegDeviceAllocator::allocate(size_t nbytes) {
  return allocate(nbytes, getCurrentOpenRegStream());
}

DataPtr OpenRegDeviceAllocator::allocate(
    size_t nbytes,
    const OpenRegStream& stream) {
  const DeviceIndex device = stream.device_index();
  if (nbytes == 0) {
    return makeDataPtr(nullptr, device);
  }
  BlockPool& pool = memoryOf(device).pool;
  const auto take = [&] {
    return C10_LIKELY(cachingEnabled())
        ? pool.allocate(
              nbytes, stream.stream(), contextFor(pool, PoolRecord::State))
        : allocateUncached(nbytes, stream);
  };
  void* pointer = take();
  if (C10_UNLIKELY(!pointer) && collectSent()) {
    pointer = take();
  }
  if (C10_UNLIKELY(!pointer)) {
    throwOutOfMemory(pool, nbytes, device, getMemoryInfo(device));
  }
  return makeDataPtr(pointer, device);
}

DataPtr OpenRegDeviceAllocator::tryAllocate(
    size_t nbytes,
    const OpenRegStream& stream) {
  const DeviceIndex device = stream.device_index();
  BlockPool& pool = memoryOf(device).pool;
  const PoolContext context = contextFor(pool, PoolRecord::State);
  void* pointer = nullptr;
  if (C10_LIKELY(cachingEnabled())) {
    pointer = pool.tryAllocate(nbytes, stream.stream(), context);
  } else if (!isPlugged()) { // a program's functions may wait
    pointer = allocateUncached(nbytes, stream);
  }
  if (C10_UNLIKELY(!pointer)) {
    // Waiting will not help a request for more than there is.
    const auto info = getMemoryInfo(device);
    if (nbytes > info.second) {
      pool.noteFailure(nbytes, stream.stream(), context);
      throwOutOfMemory(pool, nbytes, device, info);
    }
  }
  return makeDataPtr(pointer, device);
}

DataPtr OpenRegDeviceAllocator::adopt(void* pointer, DeviceIndex device) {
  return makeDataPtr(pointer, device);
}

DeleterFnPtr OpenRegDeviceAllocator::raw_deleter() const {
  return &deleteRawPointer;
}

void OpenRegDeviceAllocator::copy_data(
    void* dest,
    const void* src,
    size_t count) const {
  if (count == 0) {
    return;
  }
  checkNotLost(src);
  submitCopy(
      dest,
      src,
      count,
      orMemcpyDeviceToDevice,
      getCurrentOpenRegStream(deviceOfPointer(dest)));
}

// --- c10::DeviceAllocator -----------------------------------------------------

bool OpenRegDeviceAllocator::initialized() {
  for (const auto& memory : memories) {
    if (memory.load(std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void OpenRegDeviceAllocator::emptyCache(MempoolId_t id) {
  for (const auto& memory : memories) {
    if (Memory* used = memory.load(std::memory_order_acquire)) {
      used->pool.emptyCache(id, contextFor(used->pool, PoolRecord::All));
    }
  }
}

void OpenRegDeviceAllocator::recordStream(const DataPtr& data, Stream stream) {
  if (!data.get()) {
    return;
  }
  TORCH_CHECK(
      data.device().type() == DeviceType::PrivateUse1,
      "expected memory of an openreg device, but got memory of ",
      data.device());
  const OpenRegStream used(stream);
  // Memory that came from elsewhere is not the pool's to reuse.
  if (!recordReceived(data, used)) {
    memoryOf(data.device().index())
        .pool.recordStream(data.get(), used.stream());
  }
}

CachingDeviceAllocator::DeviceStats OpenRegDeviceAllocator::getDeviceStats(
    DeviceIndex device) {
  const PoolStats from = memoryOf(device).pool.stats();
  CachingDeviceAllocator::DeviceStats to;
  const auto copyOne = [](const PoolStat& source,
                          CachingAllocator::Stat& target) {
    target.current = source.current;
    target.peak = source.peak;
    target.allocated = source.allocated;
    target.freed = source.freed;
  };
  const auto copy = [&](const PoolStats::Array& source,
                        CachingAllocator::StatArray& target) {
    for (size_t i = 0; i < source.size(); ++i) {
      copyOne(source[i], target[i]);
    }
  };
  copy(from.allocation, to.allocation);
  copy(from.segment, to.segment);
  copy(from.active, to.active);
  copy(from.inactiveSplit, to.inactive_split);
  copy(from.allocatedBytes, to.allocated_bytes);
  copy(from.reservedBytes, to.reserved_bytes);
  copy(from.activeBytes, to.active_bytes);
  copy(from.inactiveSplitBytes, to.inactive_split_bytes);
  copy(from.requestedBytes, to.requested_bytes);
  copyOne(from.oversizeAllocations, to.oversize_allocations);
  copyOne(from.oversizeSegments, to.oversize_segments);
  to.num_sync_all_streams = from.waitsForAll;
  to.num_alloc_retries = from.retries;
  to.num_ooms = from.outOfMemory;
  to.num_device_alloc = from.maps;
  to.num_device_free = from.unmaps;
  const size_t maxSplitSize = pool(device).config().maxSplitSize;
  to.max_split_size =
      maxSplitSize == SIZE_MAX ? -1 : static_cast<int64_t>(maxSplitSize);
  return to;
}

void OpenRegDeviceAllocator::resetAccumulatedStats(DeviceIndex device) {
  memoryOf(device).pool.resetAccumulatedStats();
}

void OpenRegDeviceAllocator::resetPeakStats(DeviceIndex device) {
  memoryOf(device).pool.resetPeakStats();
}

std::pair<size_t, size_t> OpenRegDeviceAllocator::getMemoryInfo(
    DeviceIndex device) {
  const OpenRegGuard guard(device);
  size_t free = 0, total = 0;
  OPENREG_CHECK(orMemGetInfo(&free, &total));
  return {free, total};
}

// --- more ---------------------------------------------------------------------

BlockPool& OpenRegDeviceAllocator::pool(DeviceIndex device) {
  return memoryOf(device).pool;
}

double OpenRegDeviceAllocator::memoryFraction(DeviceIndex device) {
  return memoryOf(device).fraction;
}

void OpenRegDeviceAllocator::setMemoryFraction(
    double fraction,
    DeviceIndex device) {
  TORCH_CHECK_VALUE(
      fraction >= 0 && fraction <= 1,
      "Invalid fraction value: ",
      fraction,
      ". Allowed range: 0~1");
  const auto total = static_cast<double>(getMemoryInfo(device).second);
  Memory& memory = memoryOf(device);
  memory.pool.setLimit(
      fraction == 1 ? SIZE_MAX : static_cast<size_t>(fraction * total));
  memory.fraction = fraction;
}

void OpenRegDeviceAllocator::reloadConfig() {
  for (const auto& memory : memories) {
    if (Memory* used = memory.load(std::memory_order_acquire)) {
      used->pool.setConfig(poolConfig());
    }
  }
}

void OpenRegDeviceAllocator::setContextRecorder(
    CachingDeviceAllocator::CreateContextFn recorder) {
  contextRecorder = recorder;
}

OpenRegDeviceAllocator& getOpenRegDeviceAllocator() {
  static auto* allocator = new OpenRegDeviceAllocator;
  return *allocator;
}

namespace {

// PyTorch finds the allocator in its table, which a static initialiser fills.
struct RegisterAllocator {
  RegisterAllocator() {
    SetAllocator(DeviceType::PrivateUse1, &getOpenRegDeviceAllocator());
  }
} registerAllocator;

} // namespace
} // namespace c10::openreg
