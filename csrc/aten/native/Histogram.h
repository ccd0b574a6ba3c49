// Histograms of integers, which CUDA has and the CPU has not.
#pragma once

#include <ATen/core/Tensor.h>

namespace at::native::openreg {

/// How many values fall into each of `bins` equal parts of [min, max]; if the two
/// are equal, of the range of the data. Queued for integers, unless that range has
/// to be found; other dtypes run the CPU's kernel.
Tensor histc(
    const Tensor& self,
    int64_t bins,
    const Scalar& min,
    const Scalar& max);
Tensor& histc_out(
    const Tensor& self,
    int64_t bins,
    const Scalar& min,
    const Scalar& max,
    Tensor& out);

} // namespace at::native::openreg
