// Registration of the operators without which there is no tensor: one line per
// schema, alphabetical, naming the kernel itself. Why a kernel is written as it is
// stands beside it in native/.
#include "aten/native/Copy.h"
#include "aten/native/Minimal.h"

#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include "runtime/OpenRegLibrary.h"

namespace at::native {

namespace ops = openreg;

// docs:begin minimal-ops
OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", TORCH_FN(ops::_copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(ops::_copy_from_and_resize));
  m.impl("_efficientzerotensor", TORCH_FN(ops::_efficientzerotensor));
  m.impl(
      "_has_compatible_shallow_copy_type",
      TORCH_FN(ops::_has_compatible_shallow_copy_type));
  m.impl("_local_scalar_dense", TORCH_FN(ops::_local_scalar_dense));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("_to_copy", TORCH_FN(ops::_to_copy));
  m.impl("as_strided", TORCH_FN(ops::as_strided));
  m.impl("clone", TORCH_FN(ops::clone));
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

// docs:begin fallthrough
// A copy resolves lazy conjugation and negation itself, and record_stream looks at
// no values. Without these lines the generic kernels of the keys would call copy
// again, without end, and give record_stream a copy of the tensor.
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
