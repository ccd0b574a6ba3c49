// LSTMs: a layer at once in oneDNN where the CPU does it so, else step by step.
#pragma once

#include <ATen/core/Tensor.h>

namespace at::native::openreg {

std::tuple<Tensor, Tensor, Tensor> lstm_input(
    const Tensor& input,
    TensorList hx,
    TensorList params,
    bool has_biases,
    int64_t num_layers,
    double dropout,
    bool train,
    bool bidirectional,
    bool batch_first);
std::tuple<Tensor, Tensor, Tensor> lstm_data(
    const Tensor& data,
    const Tensor& batch_sizes,
    TensorList hx,
    TensorList params,
    bool has_biases,
    int64_t num_layers,
    double dropout,
    bool train,
    bool bidirectional);

} // namespace at::native::openreg
