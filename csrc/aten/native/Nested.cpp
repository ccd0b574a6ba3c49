#include "aten/native/Nested.h"

#include <ATen/ops/_nested_view_from_buffer_native.h>

namespace at::native::openreg {

Tensor _nested_view_from_buffer(
    const Tensor& buffer,
    const Tensor& nested_size,
    const Tensor& nested_strides,
    const Tensor& offsets) {
  return at::native::_nested_view_from_buffer(
      buffer, nested_size.cpu(), nested_strides.cpu(), offsets.cpu());
}

} // namespace at::native::openreg
