// Nested tensors: the operators that are not the same for every device.
#pragma once

#include <ATen/core/Tensor.h>

namespace at::native::openreg {

/// A nested tensor over a buffer. Its sizes may be on the device: torch.load() puts
/// all that it reads where `map_location` says.
Tensor _nested_view_from_buffer(
    const Tensor& buffer,
    const Tensor& nested_size,
    const Tensor& nested_strides,
    const Tensor& offsets);

} // namespace at::native::openreg
