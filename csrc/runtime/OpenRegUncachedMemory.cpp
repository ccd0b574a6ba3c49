#include "runtime/OpenRegUncachedMemory.h"

#include "runtime/OpenRegException.h"
#include "runtime/OpenRegGuard.h"

#include <atomic>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

namespace c10::openreg {
namespace {

std::atomic<bool> enabled{true};

struct Memory {
  std::mutex mutex;
  std::unordered_set<void*> live;
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

bool cachingEnabled() noexcept {
  return enabled.load(std::memory_order_relaxed);
}

void enableCaching(bool value) noexcept {
  enabled = value;
}

void* allocateUncached(size_t nbytes, DeviceIndex device) {
  releaseDropped();
  const OpenRegGuard guard(device);
  void* pointer = nullptr;
  const orError_t status = orMalloc(&pointer, nbytes);
  if (status == orErrorMemoryAllocation) {
    orGetLastError(); // the caller makes an exception of it
    return nullptr;
  }
  OPENREG_CHECK(status);
  const std::lock_guard lock(memory().mutex);
  memory().live.insert(pointer);
  return pointer;
}

bool freeUncached(void* pointer) {
  {
    const std::lock_guard lock(memory().mutex);
    if (memory().live.erase(pointer) == 0) {
      return false;
    }
  }
  releaseDropped();
  release(pointer);
  return true;
}

} // namespace c10::openreg
