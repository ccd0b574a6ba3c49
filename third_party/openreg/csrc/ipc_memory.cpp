// Device memory that processes share.
#include "openreg/ipc.h"

#include "device.h"
#include "ipc.h"
#include "runtime.h"

#include <bit>
#include <new>

namespace openreg {

orError_t DeviceMemory::share(
    void* pointer,
    uint32_t number,
    ipc::Handle* handle) {
  std::lock_guard lock(mutex_);
  const Arena::Entry* entry = find(pointer);
  const auto [offset, bytes] = liveAround(pointer);
  if (bytes == 0 || offset != offsetOf(pointer) || entry->second.borrowed) {
    return fail(
        orErrorInvalidValue,
        entry && entry->second.borrowed
            ? "%p was opened with orIpcOpenMemHandle(); only the process that "
              "allocated it may share it"
            : "%p is not the start of a live device allocation; "
              "orMemGetAddressRange() tells where one begins",
        pointer);
  }
  std::shared_ptr<ipc::Shared>& shared = shared_[{offset, bytes}];
  if (!shared) {
    shared = runtime().shared.create([&](ipc::Shared& made) {
      made.file = os::identify(memory_);
      made.offset = offset;
      made.bytes = bytes;
      made.device = number;
    });
  }
  if (!shared) {
    shared_.erase({offset, bytes});
    return fail(
        orErrorMemoryAllocation,
        "too many allocations and events are shared; free some");
  }
  *handle = runtime().shared.handleOf(ipc::Kind::Memory, *shared);
  return orSuccess;
}

void DeviceMemory::stopSharing(size_t offset, size_t bytes) {
  shared_.erase(
      shared_.lower_bound({offset, 0}),
      shared_.lower_bound({offset + bytes, 0}));
}

// docs:begin ipc-borrow
void* DeviceMemory::borrow(const ipc::Handle& handle, const ipc::Shared& from) {
  std::lock_guard lock(mutex_);
  for (auto& [offset, loan] : loans_) {
    if (loan.check == handle.check && loan.stamp == handle.stamp) {
      ++loan.openings;
      return addresses_.deviceAddress(device_) + offset;
    }
  }
  if (memory_ < 0) {
    map();
  }
  const auto offset = arena_.borrow(from.bytes);
  if (!offset) {
    fail(
        orErrorMemoryAllocation,
        "device %d has no address range of %zu bytes left; "
        "OPENREG_DEVICE_MEMORY sets how many there are",
        device_,
        static_cast<size_t>(from.bytes));
    return nullptr;
  }
  const os::Process owner{handle.owner, handle.ownerStarted};
  const int file = os::openFileOf(owner, from.file);
  const bool mapped =
      file >= 0 && mapViews(file, from.offset, *offset, from.bytes);
  if (file >= 0) {
    os::closeSparseMemory(file); // the mappings keep the memory
  }
  if (!mapped) {
    takeBack(*offset);
    fail(
        orErrorMapBufferObjectFailed,
        "the memory of process %d cannot be mapped; has it ended?",
        handle.owner);
    return nullptr;
  }
  loans_[*offset] = {handle.check, handle.stamp, 1};
  return addresses_.deviceAddress(device_) + *offset;
}
// docs:end ipc-borrow

// The addresses get the device's own memory back.
void DeviceMemory::takeBack(size_t offset) {
  const size_t bytes = arena_.find(offset)->second.bytes;
  if (!mapViews(memory_, offset, offset, bytes)) {
    throw std::bad_alloc();
  }
  arena_.release(offset);
}

bool DeviceMemory::giveBack(const void* pointer) {
  std::lock_guard lock(mutex_);
  const Arena::Entry* entry = find(pointer);
  if (!entry || addresses_.deviceAddress(device_) + entry->first != pointer ||
      !entry->second.borrowed) {
    return false;
  }
  const auto loan = loans_.find(entry->first);
  if (loan->second.openings == 1) {
    takeBack(entry->first);
    loans_.erase(loan);
  } else {
    --loan->second.openings;
  }
  return true;
}

} // namespace openreg

using namespace openreg;

namespace {

// The number that a device has in every process; config.cpp puts it there.
uint32_t numberOf(const Device& device) {
  return device.properties().uuid[sizeof(device.properties().uuid) - 1];
}

Device* findByNumber(uint32_t number) {
  for (const auto& device : runtime().devices) {
    if (numberOf(*device) == number) {
      return device.get();
    }
  }
  fail(
      orErrorInvalidDevice,
      "the memory is on device %u, which OPENREG_VISIBLE_DEVICES or "
      "OPENREG_DEVICE_COUNT hides from this process",
      number);
  return nullptr;
}

} // namespace

orError_t orIpcGetMemHandle(orIpcMemHandle_t* handle, void* pointer) {
  return api("orIpcGetMemHandle", [&](Runtime& runtime) {
    if (!handle) {
      return fail(orErrorInvalidValue, "handle must not be NULL");
    }
    const int owner = runtime.addresses.deviceOf(pointer);
    if (owner < 0) {
      return fail(orErrorInvalidValue, "%p is not device memory", pointer);
    }
    Device& device = *runtime.devices[static_cast<size_t>(owner)];
    ipc::Handle made;
    const orError_t status =
        device.memory().share(pointer, numberOf(device), &made);
    if (status == orSuccess) {
      *handle = std::bit_cast<orIpcMemHandle_t>(made);
    }
    return status;
  });
}

orError_t orIpcOpenMemHandle(
    void** pointer,
    orIpcMemHandle_t handle,
    unsigned int flags) {
  if (pointer) {
    *pointer = nullptr;
  }
  return api("orIpcOpenMemHandle", [&](Runtime&) {
    if (!pointer) {
      return fail(orErrorInvalidValue, "pointer must not be NULL");
    }
    if (flags != orIpcMemLazyEnablePeerAccess) {
      return fail(
          orErrorInvalidValue,
          "flags must be orIpcMemLazyEnablePeerAccess (1), but is %u",
          flags);
    }
    const auto named = std::bit_cast<ipc::Handle>(handle);
    const auto shared = ipc::open(ipc::Kind::Memory, named);
    Device* const device = shared ? findByNumber(shared->device) : nullptr;
    if (!device) {
      return orPeekAtLastError();
    }
    if (const orError_t status = device->check(); status != orSuccess) {
      return status;
    }
    *pointer = device->memory().borrow(named, *shared);
    device->active.store(true, std::memory_order_relaxed);
    return *pointer ? orSuccess : orPeekAtLastError();
  });
}

orError_t orIpcCloseMemHandle(void* pointer) {
  return api("orIpcCloseMemHandle", [&](Runtime& runtime) {
    const int owner = runtime.addresses.deviceOf(pointer);
    return owner >= 0 &&
            runtime.devices[static_cast<size_t>(owner)]->memory().giveBack(
                pointer)
        ? orSuccess
        : fail(
              orErrorInvalidValue,
              "%p is not the start of memory that is open; was it closed "
              "before?",
              pointer);
  });
}
