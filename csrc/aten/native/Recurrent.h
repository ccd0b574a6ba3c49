// Recurrent nets, composed of operators as the CPU composes them. PyTorch looks at
// the device and would take one for other devices apart in another way, which costs
// bits and time.
#pragma once

#include "aten/native/RecurrentNet.h"

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace at::native::openreg {

/// Runs a net step by step. `batch_sizes` is undefined unless `input` is packed;
/// `hx` is the hidden state of all layers, and the cell state of an LSTM. Returns
/// the output, and the last of these states.
std::pair<Tensor, std::vector<Tensor>> runRecurrent(
    const RecurrentNet& net,
    const Tensor& input,
    const Tensor& batch_sizes,
    TensorList hx,
    TensorList params);

/// aten::gru, rnn_tanh and rnn_relu.
template <RecurrentKind kind>
std::tuple<Tensor, Tensor> recurrent_input(
    const Tensor& input,
    const Tensor& hx,
    TensorList params,
    bool has_biases,
    int64_t num_layers,
    double dropout,
    bool train,
    bool bidirectional,
    bool batch_first) {
  auto [output, last] = runRecurrent(
      {kind,
       has_biases,
       num_layers,
       dropout,
       train,
       bidirectional,
       batch_first},
      input,
      Tensor(),
      hx,
      params);
  return {std::move(output), std::move(last[0])};
}
template <RecurrentKind kind>
std::tuple<Tensor, Tensor> recurrent_data(
    const Tensor& data,
    const Tensor& batch_sizes,
    const Tensor& hx,
    TensorList params,
    bool has_biases,
    int64_t num_layers,
    double dropout,
    bool train,
    bool bidirectional) {
  auto [output, last] = runRecurrent(
      {kind, has_biases, num_layers, dropout, train, bidirectional},
      data,
      batch_sizes,
      hx,
      params);
  return {std::move(output), std::move(last[0])};
}

Tensor gru_cell(
    const Tensor& input,
    const Tensor& hx,
    const Tensor& w_ih,
    const Tensor& w_hh,
    const std::optional<Tensor>& b_ih,
    const std::optional<Tensor>& b_hh);
std::tuple<Tensor, Tensor> lstm_cell(
    const Tensor& input,
    TensorList hx,
    const Tensor& w_ih,
    const Tensor& w_hh,
    const std::optional<Tensor>& b_ih,
    const std::optional<Tensor>& b_hh);

} // namespace at::native::openreg
