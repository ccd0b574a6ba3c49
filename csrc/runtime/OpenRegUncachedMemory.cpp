#include "runtime/OpenRegUncachedMemory.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegException.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace c10::openreg {
namespace {

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

} // namespace

std::atomic<bool> detail::caching{true};

void enableCaching(bool value) noexcept {
  detail::caching = value && !isPlugged();
}

void plugAllocator(const PluggedAllocator& allocator) {
  plugged = allocator;
  detail::caching = false;
}

bool isPlugged() noexcept {
  return plugged.allocate != nullptr;
}

void* allocateUncached(size_t nbytes, int device, orStream_t stream) {
  void* pointer = nullptr;
  if (isPlugged()) {
    pointer = plugged.allocate(static_cast<ssize_t>(nbytes), device, stream);
  } else {
    releaseDropped();
    pointer = mallocOn(device, nbytes);
  }
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

std::vector<const void*> uncachedOn(int device) {
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
