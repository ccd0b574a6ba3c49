// Device memory and its two addresses.
#pragma once

#include "openreg/device.h"
#include "openreg/memory.h"
#include "arena.h"
#include "ipc.h"
#include "os.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace openreg {

/// The address space of all devices, reserved on first use: device i owns
/// [i * stride, (i + 1) * stride) of two ranges. The first holds device
/// addresses, at which nothing is readable; the second holds the same bytes for
/// kernels. Their distance is one constant.
///
/// Threads: any may call anything.
class AddressSpace {
 public:
  explicit AddressSpace(const std::vector<orDeviceProp>& devices);

  /// Makes sure that the ranges are reserved. Throws std::bad_alloc.
  void reserve();

  /// The device that owns a device address, or -1.
  int deviceOf(const void* pointer) const;

  /// A device address as kernels see it.
  void* kernelAddress(const void* pointer) const {
    return reinterpret_cast<void*>(
        reinterpret_cast<uintptr_t>(pointer) - deviceBase_.load() +
        kernelBase_.load());
  }

  /// Whether any of the bytes has a device address.
  bool overlaps(const void* pointer, size_t bytes) const;

  size_t stride() const {
    return stride_;
  }
  char* deviceAddress(int device) const {
    return reinterpret_cast<char*>(deviceBase_.load()) +
        static_cast<size_t>(device) * stride_;
  }

 private:
  size_t count_;
  size_t stride_ = 0;
  std::once_flag reserved_;
  std::atomic<uintptr_t> deviceBase_{0}; // 0: not reserved yet
  std::atomic<uintptr_t> kernelBase_{0};
};

/// The memory of one device.
///
/// Threads: any may call anything.
class DeviceMemory {
 public:
  DeviceMemory(int device, size_t capacity, AddressSpace& addresses);

  size_t capacity() const {
    return arena_.capacity();
  }
  size_t used();

  /// Where the bytes are, see orDeviceGetMemory(). Throws std::bad_alloc.
  orDeviceMemory place();

  /// A new allocation of whole pages, or nullptr if there is no room.
  void* allocate(size_t bytes);

  /// Frees the allocation that starts at `pointer`. Returns false if none does.
  bool free(void* pointer);

  /// Whether a live allocation starts at `pointer`.
  bool isStart(const void* pointer);

  /// How many bytes of the live allocation around `pointer` follow it; 0 if
  /// there is none.
  size_t bytesFrom(const void* pointer);

  /// The live allocation around `pointer`; {nullptr, 0} if there is none.
  std::pair<void*, size_t> rangeAround(const void* pointer);

  /// Opens or closes an allocation for the host, see orMemoryUnprotect().
  orError_t changeOpenings(void* pointer, int by);

  // --- with other processes (ipc_memory.cpp) ---

  /// Names the allocation that starts at `pointer` for others. `number` is the
  /// device's own in every process.
  orError_t share(void* pointer, uint32_t number, ipc::Handle* handle);

  /// Maps memory of another process. It is no part of used(). Returns nullptr
  /// with the thread's error set.
  void* borrow(const ipc::Handle& handle, const ipc::Shared& from);

  /// Undoes one borrow(). Returns false if nothing borrowed starts there.
  bool giveBack(const void* pointer);
  bool isBorrowed(const void* pointer);

 private:
  struct Loan {
    uint64_t check, stamp; // of the handle
    int openings;
  };

  Arena::Entry* find(const void* pointer);
  void map();
  bool mapViews(int memory, size_t from, size_t offset, size_t bytes);
  void takeBack(size_t offset);
  void setAccess(const Arena::Entry& entry, os::Access access);

  const int device_;
  AddressSpace& addresses_;
  std::mutex mutex_;
  Arena arena_;
  int memory_ = -1; // descriptor; -1: not mapped yet
  // By offset: what others may open, and what is theirs.
  std::map<size_t, std::shared_ptr<ipc::Shared>> shared_;
  std::map<size_t, Loan> loans_;
};

} // namespace openreg
