// New tensors in memory of the device.
#pragma once

#include "runtime/OpenRegStream.h"

#include <ATen/core/Tensor.h>

namespace at::native::openreg {

/// An uninitialised tensor in memory of a stream. Without strides, the memory format of
/// the options decides its layout. Throws if the device has no memory.
Tensor makeDeviceTensor(
    IntArrayRef sizes,
    IntArrayRef strides,
    const TensorOptions& options,
    const c10::openreg::OpenRegStream& stream);

} // namespace at::native::openreg
