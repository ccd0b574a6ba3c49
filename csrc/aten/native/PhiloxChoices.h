// Random operators that choose among elements, with a GPU's numbers.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace at::native::openreg::philox {

Tensor& randperm_out(
    int64_t n,
    std::optional<Generator> generator,
    Tensor& out);

/// For PyTorch's multinomial().
void multinomialWithReplacement(
    Tensor& result,
    const Tensor& self,
    int64_t n_sample,
    std::optional<Generator> generator);

} // namespace at::native::openreg::philox
