// The device: what a vendor's C runtime gives, made of malloc.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

constexpr int kDevices = 2;
inline thread_local int miniCurrentDevice = 0;

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
  std::free(miniKernelAddress(address));
}

/// Between any two memories.
inline void miniMemcpy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) {
    std::memcpy(miniKernelAddress(to), miniKernelAddress(from), bytes);
  }
}
