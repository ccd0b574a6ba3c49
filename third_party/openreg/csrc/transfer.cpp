#include "transfer.h"

#include <cstdio>

namespace openreg {

orError_t checkDeviceRange(
    const char* argument,
    const void* pointer,
    size_t bytes,
    int device) {
  const int owner = runtime().addresses.deviceOf(pointer);
  if (owner < 0 || (device >= 0 && owner != device)) {
    return fail(
        orErrorInvalidValue,
        device < 0 ? "%s %p is not device memory"
                   : "%s %p is not memory of device %d",
        argument,
        pointer,
        device);
  }
  const size_t available =
      runtime().devices[static_cast<size_t>(owner)]->memory().bytesFrom(
          pointer);
  if (available < bytes) {
    return fail(
        orErrorInvalidValue,
        "%s %p: %zu bytes are asked for, but its allocation on device %d holds "
        "%zu from there",
        argument,
        pointer,
        bytes,
        owner,
        available);
  }
  return orSuccess;
}

char* reach(const void* pointer, size_t bytes) {
  const int owner = runtime().addresses.deviceOf(pointer);
  if (owner < 0) {
    return static_cast<char*>(const_cast<void*>(pointer));
  }
  auto& memory = runtime().devices[static_cast<size_t>(owner)]->memory();
  if (memory.bytesFrom(pointer) < bytes) {
    char text[128];
    std::snprintf(
        text,
        sizeof(text),
        "%zu bytes at %p of device %d are no longer allocated",
        bytes,
        pointer,
        owner);
    failRunningTask(orErrorIllegalAddress, text);
    return nullptr;
  }
  return static_cast<char*>(runtime().addresses.kernelAddress(pointer));
}

} // namespace openreg
