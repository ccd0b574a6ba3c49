// Dropout with a GPU's numbers.
#pragma once

#include <ATen/core/Tensor.h>

namespace at::native::openreg::philox {

std::tuple<Tensor, Tensor> native_dropout(
    const Tensor& input,
    double p,
    std::optional<bool> train);
Tensor native_dropout_backward(
    const Tensor& grad_output,
    const Tensor& mask,
    double scale);

} // namespace at::native::openreg::philox
