// Copies between any two tensors of which one is on an openreg device.
#pragma once

#include <ATen/core/Tensor.h>

namespace at::native::openreg {

/// Copies `self` into `dst`, which is also returned: across devices, dtypes and
/// strides, in stream order, and waits where a copy of CUDA waits.
Tensor _copy_from(const Tensor& self, const Tensor& dst, bool non_blocking);

/// The same after giving `dst` the sizes of `self`.
Tensor _copy_from_and_resize(const Tensor& self, const Tensor& dst);

/// To be called before an operator overwrites `tensor`: one that was lost with its
/// device is good again if it is overwritten whole, and raises if it is not.
void beginOverwrite(const Tensor& tensor);

} // namespace at::native::openreg
