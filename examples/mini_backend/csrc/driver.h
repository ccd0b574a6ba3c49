// The device: what a vendor's C runtime provides, made of malloc.
#pragma once

#include "launch.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

// Set in each device address. No processor maps such an address, so a host that
// reads it faults, as with a GPU's.
constexpr uintptr_t kDeviceBit = uintptr_t{1} << 52;

/// What a kernel uses in place of the address.
inline void* miniKernelAddress(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address);
  return reinterpret_cast<void*>(bits & ~kDeviceBit);
}

inline void* miniMalloc(size_t bytes) {
  const auto bits = reinterpret_cast<uintptr_t>(std::malloc(bytes));
  return reinterpret_cast<void*>(bits ? bits | kDeviceBit : 0);
}

inline void miniFree(void* address) {
  miniWaitForAll();
  std::free(miniKernelAddress(address));
}

/// Between any two memories, in the order of the current stream.
inline void miniMemcpyAsync(void* to, const void* from, size_t bytes) {
  if (bytes > 0) {
    miniLaunch([to = miniKernelAddress(to),
                from = miniKernelAddress(from),
                bytes] { std::memcpy(to, from, bytes); });
  }
}

/// The same copy, finished when the call returns.
inline void miniMemcpy(void* to, const void* from, size_t bytes) {
  miniMemcpyAsync(to, from, bytes);
  miniWait();
}
