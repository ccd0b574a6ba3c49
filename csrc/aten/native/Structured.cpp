#include "aten/native/Structured.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

namespace at::native::openreg {

// A meta function leaves the strides to the memory format, or gives them.
Tensor makeOutput(
    IntArrayRef sizes,
    IntArrayRef strides,
    const TensorOptions& options,
    c10::Device device) {
  return strides.empty()
      ? at::empty(sizes, options.device(device))
      : at::empty_strided(sizes, strides, options.device(device));
}

void checkInPlace(
    const Tensor& self,
    IntArrayRef sizes,
    const TensorOptions& options) {
  TORCH_CHECK(
      options.dtype() == self.dtype(),
      "Bad in-place call: input tensor dtype ",
      self.dtype(),
      " and output tensor dtype ",
      options.dtype(),
      " should match");
  TORCH_CHECK(
      sizes == self.sizes(),
      "Bad in-place call: input tensor size ",
      self.sizes(),
      " and output tensor size ",
      sizes,
      " should match");
}

void resizeOutput(
    const Tensor& output,
    IntArrayRef sizes,
    IntArrayRef strides,
    const TensorOptions& options) {
  TORCH_CHECK(
      options.dtype() == output.dtype(),
      "Expected out tensor to have dtype ",
      options.dtype(),
      ", but got ",
      output.dtype(),
      " instead");
  if (!at::native::resize_output(output, sizes)) {
    return;
  }
  if (!strides.empty()) {
    output.as_strided_(sizes, strides);
  } else if (const auto format = options.memory_format_opt()) {
    output.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
}

} // namespace at::native::openreg
