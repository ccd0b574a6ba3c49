#include "aten/native/Convolution.h"

#include "executor/OperatorKernel.h"

#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>

namespace at::native::openreg {
namespace {

// docs:begin convolution
/// The CPU's convolution in the form that the executor calls operators in.
struct Convolution {
  using schema = Tensor(
      const Tensor&,
      const Tensor&,
      const std::optional<Tensor>&,
      IntArrayRef,
      IntArrayRef,
      IntArrayRef,
      bool,
      IntArrayRef,
      int64_t);
  static constexpr const char* name = "aten::convolution_overrideable";
  static constexpr const char* overload_name = "";
  static constexpr bool callsKernels = true;

  static Tensor redispatch(
      DispatchKeySet /*keys*/,
      const Tensor& input,
      const Tensor& weight,
      const std::optional<Tensor>& bias,
      IntArrayRef stride,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool transposed,
      IntArrayRef output_padding,
      int64_t groups) {
    return callCpuKernel<at::_ops::convolution>(
        input,
        weight,
        bias,
        c10::fromIntArrayRefSlow(stride),
        c10::fromIntArrayRefSlow(padding),
        c10::fromIntArrayRefSlow(dilation),
        transposed,
        c10::fromIntArrayRefSlow(output_padding),
        groups);
  }
};
// docs:end convolution

struct ConvolutionBackward {
  using schema = std::tuple<Tensor, Tensor, Tensor>(
      const Tensor&,
      const Tensor&,
      const Tensor&,
      IntArrayRef,
      IntArrayRef,
      IntArrayRef,
      bool,
      IntArrayRef,
      int64_t,
      std::array<bool, 3>);
  static constexpr const char* name = "aten::convolution_backward_overrideable";
  static constexpr const char* overload_name = "";
  static constexpr bool callsKernels = true;

  static std::tuple<Tensor, Tensor, Tensor> redispatch(
      DispatchKeySet /*keys*/,
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
    // The bias itself is no argument; it has one value per output channel.
    const c10::SymInt channels =
        transposed ? weight.size(1) * groups : weight.size(0);
    return callCpuKernel<at::_ops::convolution_backward>(
        grad_output,
        input,
        weight,
        c10::SymIntArrayRef(channels),
        c10::fromIntArrayRefSlow(stride),
        c10::fromIntArrayRefSlow(padding),
        c10::fromIntArrayRefSlow(dilation),
        transposed,
        c10::fromIntArrayRefSlow(output_padding),
        groups,
        output_mask);
  }
};

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
  return CachedKernel<Convolution>::call(
      input,
      weight,
      bias,
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      groups);
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
  return CachedKernel<ConvolutionBackward>::call(
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
}

} // namespace at::native::openreg
