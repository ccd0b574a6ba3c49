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

/// The derivative of a layer in oneDNN.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>
mkldnn_rnn_layer_backward(
    const Tensor& input,
    const Tensor& weight1,
    const Tensor& weight2,
    const Tensor& weight3,
    const Tensor& weight4,
    const Tensor& hx,
    const Tensor& cx,
    const Tensor& output,
    const Tensor& hy,
    const Tensor& cy,
    const std::optional<Tensor>& grad_output,
    const std::optional<Tensor>& grad_hy,
    const std::optional<Tensor>& grad_cy,
    bool reverse,
    int64_t mode,
    int64_t hidden_size,
    int64_t num_layers,
    bool has_biases,
    bool train,
    bool bidirectional,
    IntArrayRef batch_sizes,
    bool batch_first,
    const Tensor& workspace);

} // namespace at::native::openreg
