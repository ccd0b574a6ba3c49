// The memory of one device, below c10's allocator: the pool, and what goes around
// it. Free of c10, so that it is tested under the sanitizers too.
#pragma once

#include "runtime/OpenRegDeviceScope.h"
#include "runtime/OpenRegFaults.h"
#include "runtime/OpenRegLostMemory.h"
#include "runtime/OpenRegUncachedMemory.h"
#include "runtime/pool/BlockPool.h"

#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

namespace c10::openreg {

/// A device's pool over libopenreg, its limit, and memory that is not cached.
///
/// Made on first use and never destroyed: tensors may outlive static destructors.
///
/// Threads: any may call anything.
class DeviceMemory {
 public:
  /// The memory of a device, or nullptr if it was not made yet.
  static DeviceMemory* find(int device) noexcept {
    return device >= 0 && device < kMaxDevices
        ? all_[static_cast<size_t>(device)].load(std::memory_order_acquire)
        : nullptr;
  }
  /// The memory of a device that exists; made unless another thread was first.
  static DeviceMemory& make(int device, const PoolConfig& config);
  /// Calls `visit(memory)` for those that were made.
  template <class Visit>
  static void forEach(Visit visit) {
    for (int device = 0; device < kMaxDevices; ++device) {
      if (DeviceMemory* memory = find(device)) {
        visit(*memory);
      }
    }
  }

  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  BlockPool& pool() {
    return pool_;
  }

  /// Memory for work of a stream, or nullptr if there is none. Waits where waiting helps.
  void* allocate(size_t bytes, orStream_t stream, const PoolContext& context) {
    if (faultsPlanned() && isRefusedByPlan()) [[unlikely]] {
      pool_.noteFailure(bytes, stream, context);
      return nullptr;
    }
    return cachingEnabled() ? pool_.allocate(bytes + redZone(), stream, context)
                            : allocateUncached(bytes, device_, stream);
  }
  /// The same without waiting, for code inside a kernel.
  void* tryAllocate(
      size_t bytes,
      orStream_t stream,
      const PoolContext& context) {
    if (faultsPlanned()) [[unlikely]] {
      return nullptr; // so that the plan is asked about the other way
    }
    if (cachingEnabled()) [[likely]] {
      return pool_.tryAllocate(bytes + redZone(), stream, context);
    }
    // A program's functions may wait.
    return isPlugged() ? nullptr : allocateUncached(bytes, device_, stream);
  }
  /// Takes back what either gave. Returns false for any other pointer.
  bool free(void* pointer, const PoolContext& context) {
    forgetLost(pointer);
    return pool_.free(pointer, context) || freeUncached(pointer);
  }

  /// Adds unused bytes to the end of each block of all devices and delays the reuse of
  /// freed blocks, or stops doing so. For tools that look for bad accesses.
  static void guardBlocks(bool on);

  /// Makes a retained private pool take its segments from functions of a program.
  void plugPool(PoolId id, const PluggedAllocator& allocator);

  /// Marks the contents of all allocations as lost, because the device was reset.
  void lose();

  /// {free, total} bytes of a device.
  static std::pair<size_t, size_t> infoOf(int device);

  /// The part of the device's memory that this process may use.
  double fraction() const {
    return fraction_.load();
  }
  void setFraction(double fraction);

 private:
  DeviceMemory(int device, const PoolConfig& config);

  /// Asks the fault plan about an allocation. Throws if the plan loses the device.
  bool isRefusedByPlan();

  /// The bytes that a block has beyond those that were asked for, at least.
  static size_t redZone() {
    return redZone_.load(std::memory_order_relaxed);
  }

  static std::array<std::atomic<DeviceMemory*>, kMaxDevices> all_;
  static std::atomic<size_t> redZone_; // 0: blocks are not guarded

  const int device_;
  const std::unique_ptr<BlockDevice> blockDevice_;
  BlockPool pool_;
  std::atomic<double> fraction_{1};
};

} // namespace c10::openreg
