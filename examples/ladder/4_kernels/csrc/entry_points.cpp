// Operators that PyTorch has for devices like this one alone: the CPU has no kernel that
// a fallback could call.
#include <ATen/ATen.h>
#include <ATen/core/op_registration/adaption.h>
#include <torch/library.h>

namespace mini {
using namespace at;
using std::optional;

// --- convolution: by way of the CPU, until the chip has its own -------------------

void checkDevices(std::initializer_list<Tensor> tensors) {
  optional<Device> common;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined()) {
      c10::impl::check_and_update_common_device(
          common, tensor, "convolution", "weight, bias or gradient");
    }
  }
}

Tensor convolution(
    const Tensor& input,
    const Tensor& weight,
    const optional<Tensor>& bias,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups) {
  const Tensor given = bias.value_or(Tensor());
  checkDevices({input, weight, given});
  return at::convolution(
             input.cpu(),
             weight.cpu(),
             given.defined() ? given.cpu() : given,
             stride,
             padding,
             dilation,
             transposed,
             output_padding,
             groups)
      .to(input.device());
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& grad,
    const Tensor& input,
    const Tensor& weight,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> mask) {
  checkDevices({grad, input, weight});
  const auto host = at::convolution_backward(
      grad.cpu(),
      input.cpu(),
      weight.cpu(),
      IntArrayRef{grad.size(1)}, // of the bias
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      groups,
      mask);
  const auto back = [&](const Tensor& tensor) {
    return tensor.defined() ? tensor.to(input.device()) : tensor;
  };
  return {
      back(std::get<0>(host)),
      back(std::get<1>(host)),
      back(std::get<2>(host))};
}

// --- cells of recurrent networks: of other operators, which know their gradients ----

Tensor plus(const Tensor& gates, const optional<Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& input,
    const Tensor& hidden,
    const Tensor& cx,
    const optional<Tensor>& input_bias,
    const optional<Tensor>& hidden_bias) {
  const Tensor gates = plus(input, input_bias) + plus(hidden, hidden_bias);
  const auto parts = gates.chunk(4, 1); // input, forget, cell, output
  const Tensor cy =
      parts[1].sigmoid() * cx + parts[0].sigmoid() * parts[2].tanh();
  return {parts[3].sigmoid() * cy.tanh(), cy, gates};
}

std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& input,
    const Tensor& hidden,
    const Tensor& hx,
    const optional<Tensor>& input_bias,
    const optional<Tensor>& hidden_bias) {
  const auto in = plus(input, input_bias).chunk(3, 1); // reset, update, new
  const auto last = plus(hidden, hidden_bias).chunk(3, 1);
  const Tensor reset = (in[0] + last[0]).sigmoid();
  const Tensor update = (in[1] + last[1]).sigmoid();
  const Tensor fresh = (in[2] + reset * last[2]).tanh();
  return {(hx - fresh) * update + fresh, fresh};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", mini::convolution);
  m.impl("convolution_backward_overrideable", mini::convolution_backward);
  m.impl("_thnn_fused_lstm_cell", mini::lstm_cell);
  m.impl("_thnn_fused_gru_cell", mini::gru_cell);
}
// Where gradients are wanted, autograd sees the parts.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", mini::lstm_cell);
  m.impl("_thnn_fused_gru_cell", mini::gru_cell);
}

} // namespace mini
