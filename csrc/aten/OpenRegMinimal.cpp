// Registration of the operators that are written by hand: one line per schema,
// alphabetical, naming the kernel itself. Why a kernel is written as it is stands
// beside it in native/.
#include "aten/native/Attention.h"
#include "aten/native/Convolution.h"
#include "aten/native/Copy.h"
#include "aten/native/DataChecks.h"
#include "aten/native/Embedding.h"
#include "aten/native/Histogram.h"
#include "aten/native/Minimal.h"
#include "aten/native/Nested.h"
#include "aten/native/Random.h"
#include "aten/native/Recurrent.h"

#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/relu_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

namespace at::native {

namespace ops = openreg;

// docs:begin minimal-ops
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", TORCH_FN(ops::_copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(ops::_copy_from_and_resize));
  m.impl("_efficientzerotensor", TORCH_FN(ops::_efficientzerotensor));
  m.impl(
      "_has_compatible_shallow_copy_type",
      TORCH_FN(ops::_has_compatible_shallow_copy_type));
  m.impl("_local_scalar_dense", TORCH_FN(ops::_local_scalar_dense));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("as_strided", TORCH_FN(ops::as_strided));
  m.impl("empty.memory_format", TORCH_FN(ops::empty_memory_format));
  m.impl("empty_strided", TORCH_FN(ops::empty_strided));
  m.impl("fill_.Scalar", TORCH_FN(ops::fill_Scalar));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("record_stream", TORCH_FN(ops::record_stream));
  m.impl("resize_", TORCH_FN(ops::resize_));
  m.impl("set_.source_Storage", TORCH_FN(ops::set_source_Storage));
  m.impl(
      "set_.source_Storage_storage_offset",
      TORCH_FN(ops::set_source_Storage_offset));
  m.impl("set_.source_Tensor", TORCH_FN(ops::set_source_Tensor));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl(
      "view",
      TORCH_FN(static_cast<Tensor (*)(const Tensor&, IntArrayRef)>(
          at::native::view)));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("zero_", TORCH_FN(ops::zero_));
}
// docs:end minimal-ops

// PyTorch's own code for all devices: another operator does the work.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("relu", TORCH_FN(at::native::relu));
  m.impl("relu_", TORCH_FN(at::native::relu_));
}

// A copy of quantized tensors is one of bytes.
TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("_copy_from", TORCH_FN(ops::_copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(ops::_copy_from_and_resize));
}

// Operators with a door of their own for backends.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(ops::_fused_sdp_choice));
  m.impl(
      "_scaled_dot_product_fused_attention_overrideable",
      TORCH_FN(ops::_scaled_dot_product_fused_attention_overrideable));
  m.impl(
      "_scaled_dot_product_fused_attention_overrideable_backward",
      TORCH_FN(ops::_scaled_dot_product_fused_attention_overrideable_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(ops::_thnn_fused_gru_cell));
  m.impl(
      "_thnn_fused_gru_cell_backward",
      TORCH_FN(ops::_thnn_fused_gru_cell_backward));
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(ops::_thnn_fused_lstm_cell));
  m.impl(
      "_thnn_fused_lstm_cell_backward_impl",
      TORCH_FN(ops::_thnn_fused_lstm_cell_backward_impl));
  m.impl(
      "convolution_backward_overrideable",
      TORCH_FN(ops::convolution_backward_overrideable));
  m.impl("convolution_overrideable", TORCH_FN(ops::convolution_overrideable));
  m.impl("_assert_async", TORCH_FN(ops::_assert_async));
  m.impl("_assert_async.msg", TORCH_FN(ops::_assert_async_msg));
  m.impl("_index_put_impl_", TORCH_FN(ops::_index_put_impl_));
  m.impl("_nested_view_from_buffer", TORCH_FN(ops::_nested_view_from_buffer));
  m.impl("embedding_dense_backward", TORCH_FN(ops::embedding_dense_backward));
  m.impl("histc", TORCH_FN(ops::histc));
  m.impl("histc.out", TORCH_FN(ops::histc_out));
  m.impl("native_dropout", TORCH_FN(ops::native_dropout));
  m.impl("native_dropout_backward", TORCH_FN(ops::native_dropout_backward));
}

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &ops::_fused_sdp_choice)

// docs:begin fallthrough
// A copy resolves lazy conjugation and negation itself, and record_stream looks at
// no values. Without these lines the generic kernels of the keys would call copy
// again, without end, and note the use of a copy.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
  m.impl("record_stream", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
  m.impl("record_stream", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, ZeroTensor, m) {
  m.impl("record_stream", torch::CppFunction::makeFallthrough());
}
// docs:end fallthrough

} // namespace at::native
