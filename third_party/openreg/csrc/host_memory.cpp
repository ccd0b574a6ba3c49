#include "host_memory.h"

#include "device.h"
#include "runtime.h"

#include <cstdlib>
#include <iterator>

namespace openreg {

static uintptr_t addressOf(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

bool HostMemory::add(const void* pointer, size_t bytes, Origin origin) {
  const uintptr_t begin = addressOf(pointer);
  std::lock_guard lock(mutex_);
  const auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && next->first < begin + bytes) {
    return false;
  }
  if (next != ranges_.begin()) {
    const auto& [start, range] = *std::prev(next);
    if (start + range.bytes > begin) {
      return false;
    }
  }
  ranges_.emplace_hint(next, begin, Range{bytes, origin});
  return true;
}

std::optional<size_t> HostMemory::remove(const void* pointer, Origin origin) {
  std::lock_guard lock(mutex_);
  const auto found = ranges_.find(addressOf(pointer));
  if (found == ranges_.end() || found->second.origin != origin) {
    return std::nullopt;
  }
  const size_t bytes = found->second.bytes;
  ranges_.erase(found);
  return bytes;
}

bool HostMemory::isStart(const void* pointer, Origin origin) const {
  std::lock_guard lock(mutex_);
  const auto found = ranges_.find(addressOf(pointer));
  return found != ranges_.end() && found->second.origin == origin;
}

bool HostMemory::contains(const void* pointer, size_t bytes) const {
  const uintptr_t begin = addressOf(pointer);
  std::lock_guard lock(mutex_);
  const auto next = ranges_.upper_bound(begin);
  if (next == ranges_.begin()) {
    return false;
  }
  const auto& [start, range] = *std::prev(next);
  return begin - start <= range.bytes && bytes <= range.bytes - (begin - start);
}

} // namespace openreg

using namespace openreg;

namespace {

// Pinned memory may be in use by copies of any device.
orError_t waitForAllDevices(Runtime& runtime) {
  for (const auto& device : runtime.devices) {
    if (const orError_t status = device->waitForAll(); status != orSuccess) {
      return status;
    }
  }
  return orSuccess;
}

} // namespace

orError_t orMallocHost(void** pointer, size_t size) {
  if (pointer) {
    *pointer = nullptr;
  }
  return unsafeApi("orMallocHost", [&](Runtime& runtime) {
    if (!pointer) {
      return fail(orErrorInvalidValue, "pointer must not be NULL");
    }
    if (size == 0) {
      return fail(orErrorInvalidValue, "size must be at least 1, but is 0");
    }
    const size_t page = os::pageSize();
    void* memory = size <= SIZE_MAX - page
        ? std::aligned_alloc(page, (size + page - 1) / page * page)
        : nullptr;
    if (!memory) {
      return fail(
          orErrorMemoryAllocation,
          "the host cannot allocate %zu bytes of pinned memory",
          size);
    }
    runtime.hostMemory.add(memory, size, HostMemory::Origin::Allocated);
    *pointer = memory;
    return orSuccess;
  });
}

orError_t orFreeHost(void* pointer) {
  return unsafeBlockingApi("orFreeHost", [&](Runtime& runtime) {
    if (!pointer) {
      return orSuccess;
    }
    constexpr auto kAllocated = HostMemory::Origin::Allocated;
    const auto notStart = [&] {
      return fail(
          orErrorInvalidValue,
          "%p is not the start of live memory from orMallocHost(); was it "
          "freed before?",
          pointer);
    };
    if (!runtime.hostMemory.isStart(pointer, kAllocated)) {
      return notStart();
    }
    if (const orError_t status = waitForAllDevices(runtime);
        status != orSuccess) {
      return status;
    }
    if (!runtime.hostMemory.remove(pointer, kAllocated)) {
      return notStart();
    }
    std::free(pointer);
    return orSuccess;
  });
}

orError_t orHostRegister(void* pointer, size_t size, unsigned int flags) {
  return unsafeApi("orHostRegister", [&](Runtime& runtime) {
    if (!pointer) {
      return fail(orErrorInvalidValue, "pointer must not be NULL");
    }
    if (size == 0 || addressOf(pointer) + size < size) {
      return fail(
          orErrorInvalidValue,
          "size must be at least 1 and end within the address space, but is "
          "%zu",
          size);
    }
    if (flags != 0) {
      return fail(orErrorInvalidValue, "flags must be 0, but is %u", flags);
    }
    if (runtime.addresses.overlaps(pointer, size)) {
      return fail(
          orErrorInvalidValue, "%p is device memory, not host memory", pointer);
    }
    return runtime.hostMemory.add(pointer, size, HostMemory::Origin::Registered)
        ? orSuccess
        : fail(
              orErrorHostMemoryAlreadyRegistered,
              "some of the %zu bytes at %p are pinned already",
              size,
              pointer);
  });
}

orError_t orHostUnregister(void* pointer) {
  return unsafeBlockingApi("orHostUnregister", [&](Runtime& runtime) {
    if (!pointer) {
      return fail(orErrorInvalidValue, "pointer must not be NULL");
    }
    constexpr auto kRegistered = HostMemory::Origin::Registered;
    const auto notRegistered = [&] {
      return fail(
          orErrorHostMemoryNotRegistered,
          "%p is not the start of registered memory",
          pointer);
    };
    if (!runtime.hostMemory.isStart(pointer, kRegistered)) {
      return notRegistered();
    }
    if (const orError_t status = waitForAllDevices(runtime);
        status != orSuccess) {
      return status;
    }
    return runtime.hostMemory.remove(pointer, kRegistered) ? orSuccess
                                                           : notRegistered();
  });
}
