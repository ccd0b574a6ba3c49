// Device memory for PyTorch: a pool per device behind c10's allocator interface.
#pragma once

#include "runtime/OpenRegStream.h"
#include "runtime/OpenRegUncachedMemory.h"
#include "runtime/pool/BlockPool.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace c10::openreg {

/// The allocator of all openreg devices. Tensors hold device addresses, at which
/// the host may not read; kernels use kernelAddress().
///
/// Threads: any may call anything.
class OpenRegDeviceAllocator final : public DeviceAllocator {
 public:
  // --- c10::Allocator: for the current device and stream ---
  DataPtr allocate(size_t nbytes) override;
  DeleterFnPtr raw_deleter() const override;
  void copy_data(void* dest, const void* src, size_t count) const override;

  // --- c10::DeviceAllocator ---
  bool initialized() override;
  void emptyCache(MempoolId_t pool = {0, 0}) override;
  void recordStream(const DataPtr& data, Stream stream) override;
  CachingDeviceAllocator::DeviceStats getDeviceStats(
      DeviceIndex device) override;
  void resetAccumulatedStats(DeviceIndex device) override;
  void resetPeakStats(DeviceIndex device) override;
  /// {free, total} bytes of the device.
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override;

  /// Memory for a stream that need not be the current one.
  DataPtr allocate(size_t nbytes, const OpenRegStream& stream);

  /// Memory for an output of a kernel that runs now, or an empty DataPtr if there
  /// is none without waiting. Throws if the device never has that much.
  DataPtr tryAllocate(size_t nbytes, const OpenRegStream& stream);

  /// Takes ownership again of what was taken out of a DataPtr with release_context().
  DataPtr adopt(void* pointer, DeviceIndex device);

  // --- what torch.cuda.memory has and c10's interface lacks ---
  /// The pool of a device: private pools, history, snapshots, observers.
  BlockPool& pool(DeviceIndex device);
  /// Makes a retained private pool take its memory from functions of a program.
  void plugPool(
      DeviceIndex device,
      const PoolId& id,
      const PluggedAllocator& allocator);
  /// The part of a device's memory that this process may use.
  double memoryFraction(DeviceIndex device);
  void setMemoryFraction(double fraction, DeviceIndex device);
  /// Reads PYTORCH_ALLOC_CONF, or what was set in its place, again.
  void reloadConfig();
  /// Returns where in a program memory is allocated or freed, for a pool whose history
  /// asks for it.
  void setContextRecorder(CachingDeviceAllocator::CreateContextFn recorder);
};

OpenRegDeviceAllocator& getOpenRegDeviceAllocator();

} // namespace c10::openreg
