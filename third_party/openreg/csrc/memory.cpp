#include "memory.h"

#include "config.h"
#include "device.h"
#include "fault.h"
#include "runtime.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <tuple>

namespace openreg {
namespace {

// docs:begin page-return
// Below a block of this size, freed pages go back in batches of the next one.
constexpr size_t kReturnAtOnce = kMiB;
constexpr size_t kReturnBatch = 8 * kMiB;
// docs:end page-return

size_t roundUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

} // namespace

DeviceMemory::DeviceMemory(int device, size_t capacity, AddressSpace& addresses)
    : device_(device),
      addresses_(addresses),
      arena_(addresses.stride(), capacity) {}

size_t DeviceMemory::used() {
  std::lock_guard lock(mutex_);
  return arena_.used();
}

// docs:begin two-views
// The same memory at two addresses: closed for the host, open for kernels.
bool DeviceMemory::mapViews(
    int memory,
    size_t from,
    size_t offset,
    size_t bytes) {
  char* const device = addresses_.deviceAddress(device_) + offset;
  void* const kernel = addresses_.kernelAddress(device);
  return os::mapMemory(memory, from, device, bytes, os::Access::None) &&
      os::mapMemory(memory, from, kernel, bytes, os::Access::ReadWrite);
}

void DeviceMemory::map() {
  addresses_.reserve();
  const size_t bytes = addresses_.stride();
  const int memory = os::createSparseMemory("openreg device memory", bytes);
  if (memory < 0) {
    throw std::bad_alloc();
  }
  if (!mapViews(memory, 0, 0, bytes)) {
    os::closeSparseMemory(memory);
    throw std::bad_alloc();
  }
  memory_ = memory;
}
// docs:end two-views

orDeviceMemory DeviceMemory::place() {
  std::lock_guard lock(mutex_);
  if (memory_ < 0) {
    map();
  }
  return {
      memory_,
      addresses_.kernelAddress(addresses_.deviceAddress(device_)),
      addresses_.stride()};
}

void* DeviceMemory::allocate(size_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > arena_.capacity()) {
    return nullptr;
  }
  if (memory_ < 0) {
    map();
  }
  const auto offset = arena_.allocate(roundUp(bytes, os::pageSize()));
  return offset ? addresses_.deviceAddress(device_) + *offset : nullptr;
}

Arena::Entry* DeviceMemory::find(const void* pointer) {
  return addresses_.deviceOf(pointer) == device_
      ? arena_.find(offsetOf(pointer))
      : nullptr;
}

size_t DeviceMemory::offsetOf(const void* pointer) const {
  return static_cast<size_t>(
      static_cast<const char*>(pointer) - addresses_.deviceAddress(device_));
}

bool DeviceMemory::isStart(const void* pointer) {
  std::lock_guard lock(mutex_);
  const Arena::Entry* entry = find(pointer);
  return entry && entry->first == offsetOf(pointer) && !entry->second.reserved;
}

std::pair<size_t, size_t> DeviceMemory::liveAround(const void* pointer) {
  const Arena::Entry* entry = find(pointer);
  if (!entry || entry->second.reserved) {
    return entry ? openAround(*entry, offsetOf(pointer)) : std::pair(0UL, 0UL);
  }
  return {entry->first, entry->second.bytes};
}

std::pair<void*, size_t> DeviceMemory::rangeAround(const void* pointer) {
  std::lock_guard lock(mutex_);
  const auto [offset, bytes] = liveAround(pointer);
  return bytes ? std::pair<void*, size_t>(
                     addresses_.deviceAddress(device_) + offset, bytes)
               : std::pair<void*, size_t>();
}

size_t DeviceMemory::bytesFrom(const void* pointer) {
  const auto [start, bytes] = rangeAround(pointer);
  return start
      ? bytes -
          static_cast<size_t>(
              static_cast<const char*>(pointer) - static_cast<char*>(start))
      : 0;
}

bool DeviceMemory::isBorrowed(const void* pointer) {
  std::lock_guard lock(mutex_);
  const Arena::Entry* entry = find(pointer);
  return entry && entry->second.borrowed;
}

void DeviceMemory::setHostAccess(
    size_t offset,
    size_t bytes,
    os::Access access) {
  if (!os::setAccess(
          addresses_.deviceAddress(device_) + offset, bytes, access)) {
    throw std::bad_alloc(); // the system splits no more mappings
  }
}

bool DeviceMemory::free(void* pointer) {
  std::lock_guard lock(mutex_);
  Arena::Entry* entry = find(pointer);
  if (!entry || entry->first != offsetOf(pointer) || entry->second.borrowed ||
      entry->second.reserved) {
    return false;
  }
  if (entry->second.openings > 0) {
    setHostAccess(entry->first, entry->second.bytes, os::Access::None);
  }
  const size_t bytes = entry->second.bytes;
  stopSharing(entry->first, bytes);
  arena_.release(entry->first);
  if (bytes >= kReturnAtOnce || arena_.dirtyBytes() >= kReturnBatch) {
    arena_.cleanDirty([this](size_t begin, size_t size) {
      os::returnPages(memory_, begin, size);
    });
  }
  return true;
}

orError_t DeviceMemory::changeOpenings(void* pointer, int by) {
  std::lock_guard lock(mutex_);
  Arena::Entry* entry = find(pointer);
  if (!entry || liveAround(pointer).second == 0) {
    return fail(
        orErrorInvalidValue,
        "%p is not in a live allocation of device %d",
        pointer,
        device_);
  }
  const auto [offset, bytes, now] = [&]() -> std::tuple<size_t, size_t, int&> {
    if (entry->second.reserved) {
      auto& [begin, piece] = *pieceAround(offsetOf(pointer));
      return {begin, piece.bytes, piece.openings};
    }
    return {entry->first, entry->second.bytes, entry->second.openings};
  }();
  const int openings = now + by;
  if (openings < 0) {
    return fail(
        orErrorInvalidValue,
        "the allocation around %p is not open; each orMemoryProtect() undoes "
        "one orMemoryUnprotect()",
        pointer);
  }
  if (openings == 0 || now == 0) {
    setHostAccess(
        offset, bytes, openings ? os::Access::ReadWrite : os::Access::None);
  }
  now = openings;
  return orSuccess;
}

} // namespace openreg

using namespace openreg;

orError_t orMalloc(void** pointer, size_t size) {
  if (pointer) {
    *pointer = nullptr;
  }
  return unsafeApi("orMalloc", [&](Runtime& runtime) {
    if (!pointer) {
      return fail(orErrorInvalidValue, "pointer must not be NULL");
    }
    if (size == 0) {
      return fail(orErrorInvalidValue, "size must be at least 1, but is 0");
    }
    Device& device = runtime.currentDevice();
    if (const orError_t status = device.check(); status != orSuccess) {
      return status;
    }
    if (faults::anyPlanned()) [[unlikely]] {
      const orError_t status = faults::beforeAllocation(device);
      if (status != orSuccess) {
        return status;
      }
    }
    *pointer = device.memory().allocate(size);
    device.active.store(true, std::memory_order_relaxed);
    if (!*pointer) {
      const size_t total = device.memory().capacity();
      return fail(
          orErrorMemoryAllocation,
          "device %d cannot allocate %zu bytes: %zu of its %zu bytes are free; "
          "OPENREG_DEVICE_MEMORY sets its capacity",
          device.index(),
          size,
          total - device.memory().used(),
          total);
    }
    return orSuccess;
  });
}

orError_t orFree(void* pointer) {
  return unsafeBlockingApi("orFree", [&](Runtime& runtime) {
    if (!pointer) {
      return orSuccess;
    }
    const auto notStart = [&] {
      return fail(
          orErrorInvalidValue,
          "%p is not the start of a live device allocation; was it freed "
          "before?",
          pointer);
    };
    const int owner = runtime.addresses.deviceOf(pointer);
    if (owner < 0) {
      return notStart();
    }
    Device& device = *runtime.devices[static_cast<size_t>(owner)];
    if (device.memory().isBorrowed(pointer)) {
      return fail(
          orErrorInvalidValue,
          "%p is memory of another process; orIpcCloseMemHandle() closes it",
          pointer);
    }
    orError_t status = device.check();
    if (status == orSuccess && !device.idle()) {
      status =
          device.memory().isStart(pointer) ? device.waitForAll() : notStart();
    }
    if (status == orSuccess) {
      status = device.checkAfterWait();
    }
    if (status != orSuccess) {
      return status;
    }
    return device.memory().free(pointer) ? orSuccess : notStart();
  });
}

orError_t orMemGetInfo(size_t* free, size_t* total) {
  return api("orMemGetInfo", [&](Runtime& runtime) {
    Device& device = runtime.currentDevice();
    if (const orError_t status = device.check(); status != orSuccess) {
      return status;
    }
    const size_t capacity = device.memory().capacity();
    if (free) {
      *free = capacity - device.memory().used();
    }
    if (total) {
      *total = capacity;
    }
    return orSuccess;
  });
}

orError_t orPointerGetAttributes(
    orPointerAttributes* attributes,
    const void* pointer) {
  return api("orPointerGetAttributes", [&](Runtime& runtime) {
    if (!attributes) {
      return fail(orErrorInvalidValue, "attributes must not be NULL");
    }
    const int owner = runtime.addresses.deviceOf(pointer);
    if (owner >= 0 &&
        runtime.devices[static_cast<size_t>(owner)]->memory().bytesFrom(
            pointer) == 0) {
      return fail(
          orErrorInvalidValue,
          "%p is an address of device %d, but not in a live allocation",
          pointer,
          owner);
    }
    const orMemoryType type = owner >= 0          ? orMemoryTypeDevice
        : runtime.hostMemory.contains(pointer, 1) ? orMemoryTypeHost
                                                  : orMemoryTypeUnmanaged;
    *attributes = {type, owner, const_cast<void*>(pointer)};
    return orSuccess;
  });
}

orError_t orMemGetAddressRange(void** base, size_t* size, const void* pointer) {
  return api("orMemGetAddressRange", [&](Runtime& runtime) {
    const int owner = runtime.addresses.deviceOf(pointer);
    const auto [start, bytes] = owner < 0
        ? std::pair<void*, size_t>()
        : runtime.devices[static_cast<size_t>(owner)]->memory().rangeAround(
              pointer);
    if (!start) {
      return fail(
          orErrorInvalidValue,
          "%p is not in a live device allocation",
          pointer);
    }
    if (base) {
      *base = start;
    }
    if (size) {
      *size = bytes;
    }
    return orSuccess;
  });
}

namespace {

orError_t changeOpenings(const char* name, void* pointer, int by) {
  return api(name, [&](Runtime& runtime) {
    const int owner = runtime.addresses.deviceOf(pointer);
    return owner < 0
        ? fail(orErrorInvalidValue, "%p is not device memory", pointer)
        : runtime.devices[static_cast<size_t>(owner)]->memory().changeOpenings(
              pointer, by);
  });
}

} // namespace

orError_t orMemoryUnprotect(void* pointer) {
  return changeOpenings("orMemoryUnprotect", pointer, +1);
}

orError_t orMemoryProtect(void* pointer) {
  return changeOpenings("orMemoryProtect", pointer, -1);
}
