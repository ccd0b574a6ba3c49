// Copies between any two tensors of which one is on an openreg device.
#pragma once

#include <ATen/core/Tensor.h>

namespace at::native::openreg {

/// Copies `self` into `dst`, which is also returned: across devices, dtypes and
/// strides, in stream order, and waits where a copy of CUDA waits.
Tensor _copy_from(const Tensor& self, const Tensor& dst, bool non_blocking);

/// The same after giving `dst` the sizes of `self`.
Tensor _copy_from_and_resize(const Tensor& self, const Tensor& dst);

/// PyTorch's own, for all devices; a copy on an openreg device has the description of
/// the memory it is a copy of.
Tensor clone(const Tensor& self, std::optional<MemoryFormat> format);
Tensor _to_copy(
    const Tensor& self,
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory,
    bool non_blocking,
    std::optional<MemoryFormat> format);

/// To be called before an operator overwrites `tensor`: one that was lost with its
/// device is good again if it is overwritten whole, and raises if it is not.
void beginOverwrite(const Tensor& tensor);

} // namespace at::native::openreg
