// Lets CPU kernels allocate their outputs in device memory.
#pragma once

#include "runtime/OpenRegStream.h"

#include <c10/core/Allocator.h>

#include <limits>

namespace at::native::openreg {

using c10::openreg::OpenRegStream;

// docs:begin output-scope
/// While it lives, tensors that the calling thread makes with the CPU allocator
/// lie in memory of the stream's device, at kernel addresses. A CPU kernel that
/// runs inside thus finds its output where it belongs, without a copy. If the
/// device has no memory at once, the tensor lies in host memory as usual.
// docs:end output-scope
class [[nodiscard]] OutputScope {
 public:
  explicit OutputScope(const OpenRegStream& stream);
  ~OutputScope();
  OutputScope(const OutputScope&) = delete;
  OutputScope& operator=(const OutputScope&) = delete;

 private:
  const OpenRegStream* const outer_;
  const size_t outerHostBytes_;
};

/// To be called in a scope whose kernel gets a number of the host: it may cast it,
/// and the copy, a few bytes, is no output.
void keepNumbersOnHost();

/// While it lives, kernels on the calling thread find no device memory for what
/// they make: outputs are copied there in the end, and temporaries never show in
/// the figures, as they do not on a GPU.
class [[nodiscard]] HostScope {
 public:
  HostScope();
  ~HostScope();
  HostScope(const HostScope&) = delete;
  HostScope& operator=(const HostScope&) = delete;

 private:
  const bool outer_;
};

/// Turns memory that was allocated inside an OutputScope into memory of its
/// device; an empty DataPtr if it was not, and then `memory` is unchanged.
c10::DataPtr takeDeviceMemory(c10::DataPtr& memory, c10::DeviceIndex device);

/// What the calling thread allocates for tensors at this moment: larger than
/// `hostBytes` may be an output, in memory of `stream`'s device if there is one.
struct OutputPlace {
  const OpenRegStream* stream = nullptr;
  size_t hostBytes = std::numeric_limits<size_t>::max();
};
OutputPlace outputPlace();

/// Memory for what is an output beyond doubt, on the device if there is some, even
/// in a HostScope.
c10::DataPtr allocateOutput(size_t bytes);

/// PyTorch's CPU allocator, as OutputScope changed it: for storages of aliases,
/// which CPU kernels may resize.
c10::Allocator* outputAllocator();

} // namespace at::native::openreg
