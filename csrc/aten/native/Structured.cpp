#include "aten/native/Structured.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <unordered_set>

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

// A dtype that the kernel does not know is no fault of the data.
void failDevice(
    const char* name,
    const OpenRegStream& stream,
    const c10::Error& error) {
  if (dynamic_cast<const c10::NotImplementedError*>(&error) ||
      dynamic_cast<const c10::OutOfMemoryError*>(&error)) {
    throw; // called from the handler of `error`, which is not about data
  }
  launch(
      name, stream, 0, [message = std::string(error.what_without_backtrace())] {
        TORCH_CHECK(false, message);
      });
}

bool checksDataInKernel(std::string_view name) {
  static const std::unordered_set<std::string_view> names{
      "aten::_index_put_impl_",
      "aten::bernoulli_",
      "aten::binary_cross_entropy",
      "aten::embedding_dense_backward",
      "aten::gather",
      "aten::index",
      "aten::index_add",
      "aten::index_copy",
      "aten::index_fill_",
      "aten::index_reduce",
      "aten::index_select",
      "aten::max_unpool2d",
      "aten::max_unpool3d",
      "aten::multinomial",
      "aten::nll_loss2d_forward",
      "aten::nll_loss_forward",
      "aten::put_",
      "aten::scatter",
      "aten::scatter_add",
      "aten::scatter_reduce",
      "aten::take",
  };
  const std::string_view base = name.substr(0, name.find('.'));
  return names.contains(base) ||
      (base.ends_with('_') && names.contains(base.substr(0, base.size() - 1)));
}

} // namespace at::native::openreg
