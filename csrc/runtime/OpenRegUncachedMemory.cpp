#include "runtime/OpenRegUncachedMemory.h"

#include "runtime/OpenRegException.h"
#include "runtime/OpenRegGuard.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace c10::openreg {
namespace {

std::atomic<bool> enabled{true};
PluggedAllocator plugged;

struct Allocation {
  size_t bytes;
  int device;
  orStream_t stream;
};

struct Memory {
  std::mutex mutex;
  std::unordered_map<void*, Allocation> live;
  std::vector<void*> dropped; // inside of kernels
};

// Never destroyed: tensors may outlive static destructors.
Memory& memory() {
  static auto* all = new Memory;
  return *all;
}

void release(void* pointer) {
  const orError_t status = orFree(pointer);
  if (status == orErrorNotPermitted) {
    orGetLastError();
    const std::lock_guard lock(memory().mutex);
    memory().dropped.push_back(pointer);
    return;
  }
  checkWarn(status, "orFree(pointer)");
}

void releaseDropped() {
  std::vector<void*> dropped;
  {
    const std::lock_guard lock(memory().mutex);
    dropped = std::exchange(memory().dropped, {});
  }
  for (void* pointer : dropped) {
    release(pointer);
  }
}

void* fromDevice(size_t nbytes, DeviceIndex device) {
  releaseDropped();
  const OpenRegGuard guard(device);
  void* pointer = nullptr;
  const orError_t status = orMalloc(&pointer, nbytes);
  if (status == orErrorMemoryAllocation) {
    orGetLastError(); // the caller makes an exception of it
    return nullptr;
  }
  OPENREG_CHECK(status);
  return pointer;
}

} // namespace

bool cachingEnabled() noexcept {
  return enabled.load(std::memory_order_relaxed);
}

void enableCaching(bool value) noexcept {
  enabled = value && !isPlugged();
}

void plugAllocator(const PluggedAllocator& allocator) {
  plugged = allocator;
  enabled = false;
}

bool isPlugged() noexcept {
  return plugged.allocate != nullptr;
}

void* allocateUncached(size_t nbytes, const OpenRegStream& stream) {
  const int device = stream.device_index();
  void* pointer = isPlugged()
      ? plugged.allocate(static_cast<ssize_t>(nbytes), device, stream)
      : fromDevice(nbytes, stream.device_index());
  if (pointer) {
    const std::lock_guard lock(memory().mutex);
    memory().live[pointer] = {nbytes, device, stream};
  }
  return pointer;
}

bool freeUncached(void* pointer) {
  Allocation was;
  {
    const std::lock_guard lock(memory().mutex);
    const auto found = memory().live.find(pointer);
    if (found == memory().live.end()) {
      return false;
    }
    was = found->second;
    memory().live.erase(found);
  }
  if (isPlugged()) {
    plugged.free(
        pointer, static_cast<ssize_t>(was.bytes), was.device, was.stream);
  } else {
    releaseDropped();
    release(pointer);
  }
  return true;
}

std::vector<const void*> uncachedOn(DeviceIndex device) {
  std::vector<const void*> found;
  const std::lock_guard lock(memory().mutex);
  for (const auto& [pointer, allocation] : memory().live) {
    if (allocation.device == device) {
      found.push_back(pointer);
    }
  }
  return found;
}

} // namespace c10::openreg
