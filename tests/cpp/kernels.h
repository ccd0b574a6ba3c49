// Kernels as the tests of the executor launch them.
#pragma once

#include "support.h"

#include "executor/Launch.h"
#include "runtime/OpenRegAddress.h"

namespace c10::openreg::testing {

using at::native::openreg::KernelNow;
using at::native::openreg::OutputScope;
using at::native::openreg::StreamMemory;

inline void listNothing(std::vector<MemoryAccess>&) {}

inline KernelNow smallKernel(const OpenRegStream& stream) {
  return {"test", stream, /*isSmall=*/true, /*microseconds=*/1, listNothing};
}

inline KernelNow largeKernel(const OpenRegStream& stream) {
  return {"test", stream, /*isSmall=*/false, /*microseconds=*/1e3, listNothing};
}

/// Whether what a CPU kernel sees there is device memory.
inline bool isDeviceMemory(const void* kernelPointer) {
  orPointerAttributes attributes;
  const orError_t status =
      orPointerGetAttributes(&attributes, deviceAddress(kernelPointer));
  orGetLastError();
  return status == orSuccess && attributes.type == orMemoryTypeDevice;
}

} // namespace c10::openreg::testing
