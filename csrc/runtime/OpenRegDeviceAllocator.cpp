#include "runtime/OpenRegDeviceAllocator.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegAllocatorConfig.h"
#include "runtime/OpenRegDeviceMemory.h"
#include "runtime/OpenRegLostMemory.h"
#include "runtime/OpenRegObserver.h"
#include "runtime/OpenRegProfiling.h"
#include "runtime/OpenRegSubmit.h"
#include "runtime/OpenRegTrace.h"
#include "runtime/ipc/ReceivedMemory.h"
#include "runtime/ipc/SentBlocks.h"

#include <array>
#include <atomic>
#include <utility>

namespace c10::openreg {
namespace {

std::atomic<CachingDeviceAllocator::CreateContextFn> contextRecorder{nullptr};

// Where in the program this happens, if the pool's history wants to know.
PoolContext contextFor(const BlockPool& pool, PoolRecord kind) {
  if (C10_LIKELY(!pool.shouldGather(kind))) {
    return nullptr;
  }
  const auto gather = contextRecorder.load();
  return gather ? PoolContext(gather()) : nullptr;
}

DeviceMemory& makeMemory(DeviceIndex device) {
  TORCH_CHECK(
      device >= 0 && device < device_count(),
      "Invalid device argument ",
      static_cast<int>(device),
      ": did you call init?\n",
      static_cast<int>(device),
      " is not in [0, ",
      static_cast<int>(device_count()),
      ")");
  return DeviceMemory::make(device, poolConfig());
}

DeviceMemory& memoryOf(DeviceIndex device) {
  DeviceMemory* memory = DeviceMemory::find(device);
  return C10_LIKELY(memory) ? *memory : makeMemory(device);
}

// --- memory as profilers see it -----------------------------------------------

// Only what the pool has: memory that a program's own allocator gave is its affair.
size_t sizeForProfiler(DeviceMemory& memory, const void* pointer) {
  return C10_UNLIKELY(profiling()) && memoryProfilingEnabled()
      ? memory.pool().sizeOf(pointer)
      : 0;
}

/// Tells a profiler of memory that came or, with a negative number, went.
void report(DeviceIndex device, void* pointer, int64_t bytes) {
  const PoolStats stats = memoryOf(device).pool().stats();
  reportMemoryUsageToProfiler(
      pointer,
      bytes,
      static_cast<size_t>(stats.allocatedBytes[PoolStats::All].current),
      static_cast<size_t>(stats.reservedBytes[PoolStats::All].current),
      Device(kDeviceType, device));
}

/// Tells whoever listens of memory that was allocated.
void reportAllocation(
    DeviceMemory& memory,
    void* pointer,
    size_t requested,
    DeviceIndex device,
    orStream_t stream) {
  observe(&RuntimeObserver::onAllocate, pointer, requested, stream);
  trace(&Trace::trace_gpu_memory_allocation, numberOf(pointer));
  const size_t bytes = sizeForProfiler(memory, pointer);
  if (C10_UNLIKELY(bytes != 0)) {
    report(device, pointer, static_cast<int64_t>(bytes));
  }
}

// docs:begin deleters
// A DataPtr's context is the pointer itself, as raw_allocate() asks for. So that
// no look-up is needed to find the device, each device has a deleter of its own.
template <int device>
void deletePointer(void* pointer) {
  if (!pointer) {
    return;
  }
  trace(&Trace::trace_gpu_memory_deallocation, numberOf(pointer));
  observe(&RuntimeObserver::onFree, pointer);
  DeviceMemory& memory = memoryOf(device);
  const size_t bytes = sizeForProfiler(memory, pointer);
  if (!memory.free(pointer, contextFor(memory.pool(), PoolRecord::All))) {
    warnQuietly(c10::str(
        Device(kDeviceType, device), " has no allocation at ", pointer));
  } else if (C10_UNLIKELY(bytes != 0)) {
    report(device, pointer, -static_cast<int64_t>(bytes));
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
  return {pointer, pointer, kDeleters[device], Device(kDeviceType, device)};
}

// Raw pointers do not tell their device.
void deleteRawPointer(void* pointer) {
  if (pointer) {
    kDeleters[deviceOfPointer(pointer)](pointer);
  }
}

[[noreturn]] void throwOutOfMemory(DeviceIndex device, size_t nbytes) {
  constexpr size_t kExbibyte = size_t{1} << 60;
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      nbytes < kExbibyte,
      deviceTitle(),
      " out of memory. Tried to allocate more than 1EB memory.");
  DeviceMemory& memory = memoryOf(device);
  const auto [free, total] = DeviceMemory::infoOf(device);
  const PoolStats stats = memory.pool().stats();
  using CachingAllocator::format_size;
  const auto allocated =
      static_cast<uint64_t>(stats.allocatedBytes[PoolStats::All].current);
  const auto reserved =
      static_cast<uint64_t>(stats.reservedBytes[PoolStats::All].current);
  if (C10_UNLIKELY(profiling())) {
    reportOutOfMemoryToProfiler(
        static_cast<int64_t>(nbytes),
        allocated,
        reserved,
        Device(kDeviceType, device));
  }
  const double fraction = memory.fraction();
  const std::string allowed = fraction == 1
      ? ""
      : format_size(
            static_cast<uint64_t>(fraction * static_cast<double>(total))) +
          " allowed; ";
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      false,
      deviceTitle(),
      " out of memory. Tried to allocate ",
      format_size(memory.pool().segmentSizeFor(nbytes)),
      ". GPU ",
      static_cast<int>(device),
      " has a total capacity of ",
      format_size(total),
      " of which ",
      format_size(free),
      " is free. Including non-PyTorch memory, this process has ",
      format_size(total - free),
      " memory in use. ",
      allowed,
      "Of the allocated memory ",
      format_size(allocated),
      " is allocated by PyTorch, and ",
      format_size(reserved - allocated),
      " is reserved by PyTorch but unallocated. If reserved but unallocated "
      "memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True "
      "to avoid fragmentation. The capacity is simulated: "
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
  DeviceMemory& memory = memoryOf(device);
  const PoolContext context = contextFor(memory.pool(), PoolRecord::State);
  const orStream_t handle = stream;
  void* pointer = memory.allocate(nbytes, handle, context);
  if (C10_UNLIKELY(!pointer) && ipc::sentBlocks().collect()) {
    pointer = memory.allocate(nbytes, handle, context);
  }
  if (C10_UNLIKELY(!pointer)) {
    throwOutOfMemory(device, nbytes);
  }
  reportAllocation(memory, pointer, nbytes, device, handle);
  return makeDataPtr(pointer, device);
}

DataPtr OpenRegDeviceAllocator::tryAllocate(
    size_t nbytes,
    const OpenRegStream& stream) {
  const DeviceIndex device = stream.device_index();
  DeviceMemory& memory = memoryOf(device);
  const PoolContext context = contextFor(memory.pool(), PoolRecord::State);
  const orStream_t handle = stream;
  void* pointer = memory.tryAllocate(nbytes, handle, context);
  if (C10_LIKELY(pointer)) {
    reportAllocation(memory, pointer, nbytes, device, handle);
    observe(&RuntimeObserver::onAllocateInKernel, pointer);
  } else if (nbytes > DeviceMemory::infoOf(device).second) {
    // Waiting will not help a request for more than there is.
    memory.pool().noteFailure(nbytes, handle, context);
    throwOutOfMemory(device, nbytes);
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
  bool any = false;
  DeviceMemory::forEach([&](DeviceMemory& /*memory*/) { any = true; });
  return any;
}

void OpenRegDeviceAllocator::emptyCache(MempoolId_t id) {
  DeviceMemory::forEach([&](DeviceMemory& memory) {
    BlockPool& pool = memory.pool();
    pool.emptyCache(id, contextFor(pool, PoolRecord::All));
  });
}

void OpenRegDeviceAllocator::recordStream(const DataPtr& data, Stream stream) {
  if (!data.get()) {
    return;
  }
  TORCH_CHECK(
      data.device().type() == kDeviceType,
      "expected memory of an openreg device, but got memory of ",
      data.device());
  const OpenRegStream used(stream);
  observe(&RuntimeObserver::onRecordStream, data.get(), used.stream());
  // Memory that came from elsewhere is not the pool's to reuse.
  if (!ipc::recordReceived(data, used)) {
    memoryOf(data.device().index())
        .pool()
        .recordStream(data.get(), used.stream());
  }
}

CachingDeviceAllocator::DeviceStats OpenRegDeviceAllocator::getDeviceStats(
    DeviceIndex device) {
  const PoolStats from = memoryOf(device).pool().stats();
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
  for (const auto& [id, reserved] : memoryOf(device).pool().reservedByPool()) {
    copy(reserved, to.reserved_bytes_by_private_pools[id]);
  }
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
  memoryOf(device).pool().resetAccumulatedStats();
}

void OpenRegDeviceAllocator::resetPeakStats(DeviceIndex device) {
  memoryOf(device).pool().resetPeakStats();
}

std::pair<size_t, size_t> OpenRegDeviceAllocator::getMemoryInfo(
    DeviceIndex device) {
  return DeviceMemory::infoOf(device);
}

// --- more ---------------------------------------------------------------------

BlockPool& OpenRegDeviceAllocator::pool(DeviceIndex device) {
  return memoryOf(device).pool();
}

void OpenRegDeviceAllocator::plugPool(
    DeviceIndex device,
    const PoolId& id,
    const PluggedAllocator& allocator) {
  memoryOf(device).plugPool(id, allocator);
}

double OpenRegDeviceAllocator::memoryFraction(DeviceIndex device) {
  return memoryOf(device).fraction();
}

void OpenRegDeviceAllocator::setMemoryFraction(
    double fraction,
    DeviceIndex device) {
  TORCH_CHECK_VALUE(
      fraction >= 0 && fraction <= 1,
      "Invalid fraction value: ",
      fraction,
      ". Allowed range: 0~1");
  memoryOf(device).setFraction(fraction);
}

void OpenRegDeviceAllocator::reloadConfig() {
  DeviceMemory::forEach(
      [](DeviceMemory& memory) { memory.pool().setConfig(poolConfig()); });
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
    SetAllocator(kDeviceType, &getOpenRegDeviceAllocator());
  }
} registerAllocator;

} // namespace
} // namespace c10::openreg
