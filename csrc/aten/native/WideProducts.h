// Products of matrices with a dtype for the result, which CUDA has and the CPU has not.
#pragma once

#include <ATen/core/Tensor.h>

namespace at::native::openreg {

/// As the operators without `out_dtype`, of matrices that were converted to it first.
/// It is the dtype of the matrices, or float for those of half and bfloat16.
Tensor mm_dtype(const Tensor& self, const Tensor& mat2, ScalarType out_dtype);
Tensor& mm_dtype_out(
    const Tensor& self,
    const Tensor& mat2,
    ScalarType out_dtype,
    Tensor& out);
Tensor bmm_dtype(const Tensor& self, const Tensor& mat2, ScalarType out_dtype);
Tensor& bmm_dtype_out(
    const Tensor& self,
    const Tensor& mat2,
    ScalarType out_dtype,
    Tensor& out);
Tensor addmm_dtype(
    const Tensor& self,
    const Tensor& mat1,
    const Tensor& mat2,
    ScalarType out_dtype,
    const Scalar& beta,
    const Scalar& alpha);
Tensor& addmm_dtype_out(
    const Tensor& self,
    const Tensor& mat1,
    const Tensor& mat2,
    ScalarType out_dtype,
    const Scalar& beta,
    const Scalar& alpha,
    Tensor& out);
Tensor baddbmm_dtype(
    const Tensor& self,
    const Tensor& batch1,
    const Tensor& batch2,
    ScalarType out_dtype,
    const Scalar& beta,
    const Scalar& alpha);
Tensor& baddbmm_dtype_out(
    const Tensor& self,
    const Tensor& batch1,
    const Tensor& batch2,
    ScalarType out_dtype,
    const Scalar& beta,
    const Scalar& alpha,
    Tensor& out);

} // namespace at::native::openreg
