#include "aten/native/Recurrent.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

namespace at::native::openreg {
namespace {

// The steps are those of the CPU's unfused cells, in their order, so that numbers
// agree as far as a bias added after a product agrees with one added inside it.

Tensor withBias(const Tensor& gates, const std::optional<Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

Tensor sigmoidSlope(const Tensor& value) {
  return (1 - value) * value;
}

Tensor tanhSlope(const Tensor& value) {
  return 1 - value * value;
}

Tensor biasGradient(const Tensor& gates, bool has_bias) {
  return has_bias ? gates.sum(0) : Tensor();
}

} // namespace

// The workspace holds what the backward pass needs: the four gates.
std::tuple<Tensor, Tensor, Tensor> _thnn_fused_lstm_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& cx,
    const std::optional<Tensor>& input_bias,
    const std::optional<Tensor>& hidden_bias) {
  const auto gates =
      (withBias(hidden_gates, hidden_bias) + withBias(input_gates, input_bias))
          .chunk(4, 1);
  const Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid(),
               cell = gates[2].tanh(), out = gates[3].sigmoid();
  Tensor cy = forget * cx + in * cell;
  Tensor hy = out * cy.tanh();
  return {hy, cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> _thnn_fused_lstm_cell_backward_impl(
    const std::optional<Tensor>& grad_hy,
    const std::optional<Tensor>& grad_cy,
    const Tensor& cx,
    const Tensor& cy,
    const Tensor& workspace,
    bool has_bias) {
  const auto gates = workspace.chunk(4, 1);
  const Tensor &in = gates[0], &forget = gates[1], &cell = gates[2],
               &out = gates[3];
  const Tensor tanhCy = cy.tanh();
  const bool hasHy = grad_hy && grad_hy->defined();
  const bool hasCy = grad_cy && grad_cy->defined();
  const Tensor hy = hasHy ? *grad_hy : cy.new_zeros(cy.sizes());
  Tensor total = hy * out * tanhSlope(tanhCy);
  if (hasCy) {
    total = total + *grad_cy;
  }
  const Tensor grad_gates = at::cat(
      {total * cell * sigmoidSlope(in),
       total * cx * sigmoidSlope(forget),
       total * in * tanhSlope(cell),
       hy * tanhCy * sigmoidSlope(out)},
      1);
  return {grad_gates, total * forget, biasGradient(grad_gates, has_bias)};
}

// The workspace: reset, update and new gate, the old state, and the hidden half of
// the new gate.
std::tuple<Tensor, Tensor> _thnn_fused_gru_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& hx,
    const std::optional<Tensor>& input_bias,
    const std::optional<Tensor>& hidden_bias) {
  const auto input = withBias(input_gates, input_bias).chunk(3, 1);
  const auto hidden = withBias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = (hidden[0] + input[0]).sigmoid();
  const Tensor update = (hidden[1] + input[1]).sigmoid();
  const Tensor fresh = (input[2] + hidden[2] * reset).tanh();
  return {
      (hx - fresh) * update + fresh,
      at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>
_thnn_fused_gru_cell_backward(
    const Tensor& grad_hy,
    const Tensor& workspace,
    bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2],
               &hx = saved[3], &hidden = saved[4];
  const Tensor gradFresh = grad_hy * (1 - update) * tanhSlope(fresh);
  const Tensor gradReset = gradFresh * hidden * sigmoidSlope(reset);
  const Tensor gradUpdate = grad_hy * (hx - fresh) * sigmoidSlope(update);
  const Tensor input = at::cat({gradReset, gradUpdate, gradFresh}, 1);
  const Tensor hiddenGates =
      at::cat({gradReset, gradUpdate, gradFresh * reset}, 1);
  return {
      input,
      hiddenGates,
      grad_hy * update,
      biasGradient(input, has_bias),
      biasGradient(hiddenGates, has_bias)};
}

} // namespace at::native::openreg
