// Copies between any two tensors of which one is on an openreg device.
#pragma once

#include <ATen/core/Tensor.h>

namespace at::native::openreg {

/// Copies `self` into `dst`, which is also returned: across devices, dtypes and
/// strides, in stream order, with CUDA's manners about who waits for what.
Tensor _copy_from(const Tensor& self, const Tensor& dst, bool non_blocking);

/// The same after giving `dst` the sizes of `self`.
Tensor _copy_from_and_resize(const Tensor& self, const Tensor& dst);

} // namespace at::native::openreg
