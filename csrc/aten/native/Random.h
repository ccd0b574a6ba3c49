// Random operators that have no generator argument.
#pragma once

#include <ATen/core/Tensor.h>

namespace at::native::openreg {

/// Dropout with the device's default generator. The numbers are those that
/// dropout on the CPU gives for the same seed.
std::tuple<Tensor, Tensor> native_dropout(
    const Tensor& input,
    double p,
    std::optional<bool> train);
Tensor native_dropout_backward(
    const Tensor& grad_output,
    const Tensor& mask,
    double scale);

} // namespace at::native::openreg
