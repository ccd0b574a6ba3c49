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

/// To be called in a scope whose kernel has its outputs: what it makes besides is
/// no output.
void keepTemporariesOnHost();

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

/// PyTorch's CPU allocator, as OutputScope changed it: for storages of aliases,
/// which CPU kernels may resize.
c10::Allocator* outputAllocator();

} // namespace at::native::openreg
