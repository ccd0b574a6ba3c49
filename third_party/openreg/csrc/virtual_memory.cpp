// The functions for address ranges, and for memory that is mapped into them.
#include "openreg/virtual_memory.h"

#include "device.h"
#include "fault.h"
#include "memory.h"
#include "runtime.h"

#include <bit>

using namespace openreg;

namespace {

// A handle is the number of memory and of its device, which counts from 1.
constexpr int kDeviceBits = 8;

orMemHandle_t handleOf(int device, uint64_t memory) {
  return std::bit_cast<orMemHandle_t>(
      memory << kDeviceBits | static_cast<uint64_t>(device + 1));
}

uint64_t memoryOf(orMemHandle_t handle) {
  return std::bit_cast<uint64_t>(handle) >> kDeviceBits;
}

Device* deviceOf(Runtime& runtime, orMemHandle_t handle) {
  const uint64_t number =
      std::bit_cast<uint64_t>(handle) % (uint64_t{1} << kDeviceBits);
  if (number == 0 || number > runtime.devices.size()) {
    fail(orErrorInvalidHandle, "%p is not a handle of memory", handle);
    return nullptr;
  }
  return runtime.devices[number - 1].get();
}

Device* deviceAt(Runtime& runtime, const void* pointer) {
  const int owner = runtime.addresses.deviceOf(pointer);
  if (owner < 0) {
    fail(orErrorInvalidValue, "%p is not an address of a device", pointer);
    return nullptr;
  }
  return runtime.devices[static_cast<size_t>(owner)].get();
}

/// Checks what asks for something new of a device.
orError_t checkNew(const void* answer, size_t size, Device& device) {
  if (!answer) {
    return fail(
        orErrorInvalidValue, "the pointer to the result must not be NULL");
  }
  return size != 0 && size % OPENREG_MEM_GRANULARITY == 0
      ? device.check()
      : fail(
            orErrorInvalidValue,
            "size must be a multiple of %zu and not 0, but is %zu",
            OPENREG_MEM_GRANULARITY,
            size);
}

} // namespace

orError_t orMemAddressReserve(void** pointer, size_t size) {
  if (pointer) {
    *pointer = nullptr;
  }
  return api("orMemAddressReserve", [&](Runtime& runtime) {
    Device& device = runtime.currentDevice();
    if (const orError_t status = checkNew(pointer, size, device)) {
      return status;
    }
    *pointer = device.memory().reserve(size);
    return *pointer ? orSuccess
                    : fail(
                          orErrorMemoryAllocation,
                          "device %d has no address range of %zu bytes left; "
                          "OPENREG_DEVICE_MEMORY sets how many there are",
                          device.index(),
                          size);
  });
}

orError_t orMemAddressFree(void* pointer, size_t size) {
  return api("orMemAddressFree", [&](Runtime& runtime) {
    Device* device = deviceAt(runtime, pointer);
    return device ? device->memory().unreserve(pointer, size)
                  : orErrorInvalidValue;
  });
}

orError_t orMemCreate(orMemHandle_t* handle, size_t size) {
  if (handle) {
    *handle = nullptr;
  }
  return unsafeApi("orMemCreate", [&](Runtime& runtime) {
    Device& device = runtime.currentDevice();
    orError_t status = checkNew(handle, size, device);
    if (status == orSuccess && faults::anyPlanned()) [[unlikely]] {
      status = faults::beforeAllocation(device);
    }
    if (status != orSuccess) {
      return status;
    }
    const uint64_t memory = device.memory().create(size);
    device.active.store(true, std::memory_order_relaxed);
    if (memory == 0) {
      const size_t total = device.memory().capacity();
      return fail(
          orErrorMemoryAllocation,
          "device %d cannot make %zu bytes: %zu of its %zu bytes are free; "
          "OPENREG_DEVICE_MEMORY sets its capacity",
          device.index(),
          size,
          total - device.memory().used(),
          total);
    }
    *handle = handleOf(device.index(), memory);
    return orSuccess;
  });
}

orError_t orMemMap(void* pointer, size_t size, orMemHandle_t handle) {
  return api("orMemMap", [&](Runtime& runtime) {
    Device* device = deviceOf(runtime, handle);
    return device ? device->memory().mapPiece(pointer, size, memoryOf(handle))
                  : orErrorInvalidHandle;
  });
}

orError_t orMemSetAccess(void* pointer, size_t size, orMemAccess access) {
  return api("orMemSetAccess", [&](Runtime& runtime) {
    if (access != orMemAccessNone && access != orMemAccessReadWrite) {
      return fail(
          orErrorInvalidValue,
          "access must be orMemAccessNone (0) or orMemAccessReadWrite (3), but "
          "is %d",
          static_cast<int>(access));
    }
    Device* device = deviceAt(runtime, pointer);
    return device ? device->memory().setAccess(
                        pointer, size, access == orMemAccessReadWrite)
                  : orErrorInvalidValue;
  });
}

orError_t orMemUnmap(void* pointer, size_t size) {
  return unsafeBlockingApi("orMemUnmap", [&](Runtime& runtime) {
    Device* device = deviceAt(runtime, pointer);
    if (!device) {
      return orErrorInvalidValue;
    }
    orError_t status = device->check();
    if (status == orSuccess) {
      status = device->memory().checkPieces(pointer, size);
    }
    if (status == orSuccess && !device->idle()) {
      status = device->waitForAll();
    }
    if (status == orSuccess) {
      status = device->checkAfterWait();
    }
    return status == orSuccess ? device->memory().unmapPieces(pointer, size)
                               : status;
  });
}

orError_t orMemRelease(orMemHandle_t handle) {
  return api("orMemRelease", [&](Runtime& runtime) {
    Device* device = deviceOf(runtime, handle);
    if (!device) {
      return orErrorInvalidHandle;
    }
    return device->memory().release(memoryOf(handle))
        ? orSuccess
        : fail(
              orErrorInvalidHandle,
              "the handle is not memory of device %d; was it released before?",
              device->index());
  });
}
