#include "aten/native/Convolution.h"

#include "aten/native/Executor.h"
#include "runtime/OpenRegGuard.h"

#include <ATen/core/op_registration/adaption.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

namespace at::native::openreg {
namespace {

/// Checks that the tensors are on one device and makes it current.
template <class... Named>
c10::Device commonDevice(const char* method, const Named&... named) {
  std::optional<c10::Device> device;
  (c10::impl::check_and_update_common_device(
       device, named.second, method, named.first),
   ...);
  return *device;
}

} // namespace

Tensor convolution_overrideable(
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups) {
  const c10::openreg::OpenRegGuard guard(commonDevice(
      __func__,
      std::pair("input", input),
      std::pair("weight", weight),
      std::pair("bias", bias)));
  const OpenRegStream stream = streamOf(input);
  AliasFrame frame(stream);
  Tensor output;
  runHere("aten::convolution", stream, [&] {
    output = at::convolution(
        frame.alias(input),
        frame.alias(weight),
        bias ? std::optional(frame.alias(*bias)) : std::nullopt,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups);
  });
  return frame.wrap(std::move(output));
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward_overrideable(
    const Tensor& grad_output,
    const Tensor& input,
    const Tensor& weight,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> output_mask) {
  const c10::openreg::OpenRegGuard guard(commonDevice(
      __func__,
      std::pair("grad_output", grad_output),
      std::pair("input", input),
      std::pair("weight", weight)));
  const OpenRegStream stream = streamOf(input);
  AliasFrame frame(stream);
  // The bias itself is no argument; it has one value per output channel.
  const int64_t channels =
      transposed ? weight.size(1) * groups : weight.size(0);
  Tensor grad_input, grad_weight, grad_bias;
  runHere("aten::convolution_backward", stream, [&] {
    std::tie(grad_input, grad_weight, grad_bias) = at::convolution_backward(
        frame.alias(grad_output),
        frame.alias(input),
        frame.alias(weight),
        IntArrayRef(channels),
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask);
  });
  return {
      frame.wrap(std::move(grad_input)),
      frame.wrap(std::move(grad_weight)),
      frame.wrap(std::move(grad_bias))};
}

} // namespace at::native::openreg
