#include "aten/native/Convolution.h"

#include "executor/ConvolutionWorkspace.h"
#include "executor/LibraryWorkspaces.h"
#include "executor/OperatorKernel.h"

#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_backward_overrideable_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/convolution_overrideable_ops.h>

namespace at::native::openreg {
namespace {

// docs:begin convolution
/// The CPU's convolution, under the name that PyTorch has for a backend's.
struct Convolution : at::_ops::convolution_overrideable {
  static constexpr bool callsKernels = true;

  template <class... Args>
  static Tensor redispatch(DispatchKeySet /*keys*/, Args&&... args) {
    return callCpuKernel<at::_ops::convolution>(std::forward<Args>(args)...);
  }
};
// docs:end convolution

struct ConvolutionBackward : at::_ops::convolution_backward_overrideable {
  static constexpr bool callsKernels = true;

  static std::tuple<Tensor, Tensor, Tensor> redispatch(
      DispatchKeySet /*keys*/,
      const Tensor& grad_output,
      const Tensor& input,
      const Tensor& weight,
      SymIntArrayRef stride,
      SymIntArrayRef padding,
      SymIntArrayRef dilation,
      bool transposed,
      SymIntArrayRef output_padding,
      const SymInt& groups,
      std::array<bool, 3> output_mask) {
    // The bias itself is not an argument; it has one value per output channel.
    const SymInt channels =
        transposed ? weight.sym_size(1) * groups : weight.sym_size(0);
    return callCpuKernel<at::_ops::convolution_backward>(
        grad_output,
        input,
        weight,
        SymIntArrayRef(channels),
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask);
  }
};

} // namespace

Tensor convolution_overrideable(
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    SymIntArrayRef stride,
    SymIntArrayRef padding,
    SymIntArrayRef dilation,
    bool transposed,
    SymIntArrayRef output_padding,
    SymInt groups) {
  for (const auto& [what, parameter] :
       {std::pair("weight", weight),
        std::pair("bias", bias.value_or(Tensor()))}) {
    TORCH_CHECK(
        !parameter.defined() || input.options().type_equal(parameter.options()),
        "Input type (",
        input.toString(),
        ") and ",
        what,
        " type (",
        parameter.toString(),
        ") should be the same");
  }
  Tensor output = CachedKernel<Convolution>::call(
      input,
      weight,
      bias,
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      groups);
  if (C10_UNLIKELY(posesAsNvidia())) {
    const ConvolutionShape shape(
        input, weight, output, stride, transposed, groups);
    borrowWorkspace(
        c10::openreg::currentStreamOf(input.device()),
        shape.forwardWorkspace());
  }
  return output;
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward_overrideable(
    const Tensor& grad_output,
    const Tensor& input,
    const Tensor& weight,
    SymIntArrayRef stride,
    SymIntArrayRef padding,
    SymIntArrayRef dilation,
    bool transposed,
    SymIntArrayRef output_padding,
    SymInt groups,
    std::array<bool, 3> output_mask) {
  auto gradients = CachedKernel<ConvolutionBackward>::call(
      grad_output,
      input,
      weight,
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      groups,
      output_mask);
  if (C10_UNLIKELY(posesAsNvidia())) {
    const ConvolutionShape shape(
        input, weight, grad_output, stride, transposed, groups);
    borrowWorkspace(
        c10::openreg::currentStreamOf(input.device()),
        shape.backwardWorkspace(output_mask));
  }
  return gradients;
}

} // namespace at::native::openreg
