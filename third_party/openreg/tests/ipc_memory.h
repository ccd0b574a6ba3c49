// What the tests of shared memory have in common.
#pragma once

#include "two_processes.h"

namespace openreg::testing {

constexpr unsigned kFlags = orIpcMemLazyEnablePeerAccess;
constexpr size_t kCount = 1000;

inline orIpcMemHandle_t handleOf(void* pointer) {
  orIpcMemHandle_t handle{};
  CHILD_REQUIRE(orIpcGetMemHandle(&handle, pointer) == orSuccess);
  return handle;
}

inline int* opened(const orIpcMemHandle_t& handle) {
  void* pointer = nullptr;
  CHILD_REQUIRE(orIpcOpenMemHandle(&pointer, handle, kFlags) == orSuccess);
  return static_cast<int*>(pointer);
}

inline orError_t openingFails(const orIpcMemHandle_t& handle) {
  void* pointer = &pointer;
  const orError_t error = orIpcOpenMemHandle(&pointer, handle, kFlags);
  CHILD_REQUIRE(!pointer && error != orSuccess);
  return error;
}

inline int read(const int* device) {
  int value = -1;
  CHILD_REQUIRE(
      orMemcpy(&value, device, sizeof(int), orMemcpyDeviceToHost) == orSuccess);
  return value;
}

inline void write(int* device, int value) {
  CHILD_REQUIRE(
      orMemcpy(device, &value, sizeof(int), orMemcpyHostToDevice) == orSuccess);
}

inline int* allocate() {
  void* memory = nullptr;
  CHILD_REQUIRE(orMalloc(&memory, kCount * sizeof(int)) == orSuccess);
  return static_cast<int*>(memory);
}

// A process that shares an allocation and waits to be told to end.
inline void share(Channel& channel) {
  channel.send(handleOf(allocate()));
  channel.await();
}

} // namespace openreg::testing
