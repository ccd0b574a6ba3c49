// Kernels as the tests of the executor launch them.
#pragma once

#include "support.h"

#include "executor/Launch.h"
#include "runtime/OpenRegAddress.h"

#include <limits>

namespace c10::openreg::testing {

using at::native::openreg::KernelNow;
using at::native::openreg::OutputScope;
using at::native::openreg::StreamMemory;

inline void listNothing(std::vector<MemoryAccess>&) {}

inline KernelNow smallKernel(const OpenRegStream& stream) {
  return {"test", stream, /*isSmall=*/true, /*microseconds=*/1, listNothing};
}

/// One that gets all threads of its caller.
inline KernelNow largeKernel(const OpenRegStream& stream) {
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  return {"test", stream, /*isSmall=*/false, kEndless, listNothing};
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
