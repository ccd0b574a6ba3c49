#include "aten/native/WideProducts.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

namespace at::native::openreg {

namespace {

Tensor widened(const Tensor& matrix, ScalarType out_dtype) {
  const auto dtype = matrix.scalar_type();
  TORCH_CHECK(
      out_dtype == dtype ||
          (out_dtype == kFloat && (dtype == kHalf || dtype == kBFloat16)),
      "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs, "
      "but it is ",
      out_dtype,
      " for ",
      dtype);
  return matrix.to(out_dtype);
}

} // namespace

Tensor mm_dtype(const Tensor& self, const Tensor& mat2, ScalarType out_dtype) {
  return at::mm(widened(self, out_dtype), widened(mat2, out_dtype));
}

Tensor& mm_dtype_out(
    const Tensor& self,
    const Tensor& mat2,
    ScalarType out_dtype,
    Tensor& out) {
  return at::mm_out(out, widened(self, out_dtype), widened(mat2, out_dtype));
}

Tensor bmm_dtype(const Tensor& self, const Tensor& mat2, ScalarType out_dtype) {
  return at::bmm(widened(self, out_dtype), widened(mat2, out_dtype));
}

Tensor& bmm_dtype_out(
    const Tensor& self,
    const Tensor& mat2,
    ScalarType out_dtype,
    Tensor& out) {
  return at::bmm_out(out, widened(self, out_dtype), widened(mat2, out_dtype));
}

Tensor addmm_dtype(
    const Tensor& self,
    const Tensor& mat1,
    const Tensor& mat2,
    ScalarType out_dtype,
    const Scalar& beta,
    const Scalar& alpha) {
  return at::addmm(
      self.to(out_dtype),
      widened(mat1, out_dtype),
      widened(mat2, out_dtype),
      beta,
      alpha);
}

Tensor& addmm_dtype_out(
    const Tensor& self,
    const Tensor& mat1,
    const Tensor& mat2,
    ScalarType out_dtype,
    const Scalar& beta,
    const Scalar& alpha,
    Tensor& out) {
  return at::addmm_out(
      out,
      self.to(out_dtype),
      widened(mat1, out_dtype),
      widened(mat2, out_dtype),
      beta,
      alpha);
}

Tensor baddbmm_dtype(
    const Tensor& self,
    const Tensor& batch1,
    const Tensor& batch2,
    ScalarType out_dtype,
    const Scalar& beta,
    const Scalar& alpha) {
  return at::baddbmm(
      self.to(out_dtype),
      widened(batch1, out_dtype),
      widened(batch2, out_dtype),
      beta,
      alpha);
}

Tensor& baddbmm_dtype_out(
    const Tensor& self,
    const Tensor& batch1,
    const Tensor& batch2,
    ScalarType out_dtype,
    const Scalar& beta,
    const Scalar& alpha,
    Tensor& out) {
  return at::baddbmm_out(
      out,
      self.to(out_dtype),
      widened(batch1, out_dtype),
      widened(batch2, out_dtype),
      beta,
      alpha);
}

} // namespace at::native::openreg
