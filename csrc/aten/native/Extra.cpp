#include "aten/native/Extra.h"

#include "executor/HandKernel.h"
#include "executor/OperatorKernel.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/abs_ops.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul_ops.h>
#include <torch/csrc/autograd/custom_function.h>

namespace at::native::openreg {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// --- a kernel for a stub ------------------------------------------------------

// docs:begin abs-kernel
// The iterator has checked shapes and devices and made the output; what is left
// is the work itself, which may run later.
void abs_kernel(TensorIteratorBase& iter) {
  const ScalarType dtype = iter.dtype();
  TORCH_CHECK_NOT_IMPLEMENTED(
      dtype != kBool && !isBarebonesUnsignedType(dtype) && !isFloat8Type(dtype),
      "\"abs_cpu\" not implemented for '",
      dtype,
      "'");
  const Tensor& output = iter.tensor(0);
  launch(
      "aten::abs",
      streamOf(output),
      {.reads = {&iter.tensor(1)}, .writes = {&output}},
      [](std::span<Tensor> aliases) {
        callCpuKernel<at::_ops::abs_out>(aliases[0], aliases[1]);
      });
}
// docs:end abs-kernel

// --- a custom operator --------------------------------------------------------

// docs:begin custom-abs
Tensor custom_abs(const Tensor& input) {
  return at::abs(input);
}

namespace {

struct CustomAbs : Function<CustomAbs> {
  static Tensor forward(AutogradContext* context, const Tensor& input) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({input});
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("openreg::custom_abs", "")
                               .typed<decltype(custom_abs)>();
    return op.call(input);
  }

  static variable_list backward(
      AutogradContext* context,
      const variable_list& grads) {
    return {grads[0].mul(context->get_saved_variables()[0].sgn())};
  }
};

} // namespace

Tensor custom_abs_autograd(const Tensor& input) {
  return CustomAbs::apply(input);
}
// docs:end custom-abs

// --- the same in an existing namespace ----------------------------------------

// docs:begin scale
Tensor openreg_scale_meta(const Tensor& self, double /*factor*/) {
  TORCH_CHECK(
      self.is_floating_point() || self.is_complex(),
      "openreg_scale needs a floating-point or complex tensor, but got ",
      self.scalar_type());
  return at::empty_like(self);
}

Tensor openreg_scale(const Tensor& self, double factor) {
  Tensor output = openreg_scale_meta(self, factor);
  launch(
      "aten::openreg_scale",
      streamOf(self),
      {.reads = {&self}, .writes = {&output}},
      [factor](std::span<Tensor> aliases) {
        callCpuKernel<at::_ops::mul_Scalar_out>(
            aliases[0], Scalar(factor), aliases[1]);
      });
  return output;
}

namespace {

struct Scale : Function<Scale> {
  static Tensor forward(
      AutogradContext* context,
      const Tensor& self,
      double factor) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["factor"] = factor;
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("aten::openreg_scale", "")
                               .typed<decltype(openreg_scale)>();
    return op.call(self, factor);
  }

  static variable_list backward(
      AutogradContext* context,
      const variable_list& grads) {
    return {grads[0].mul(context->saved_data["factor"].toDouble()), Tensor()};
  }
};

} // namespace

Tensor openreg_scale_autograd(const Tensor& self, double factor) {
  return Scale::apply(self, factor);
}
// docs:end scale

// --- autograd functions whose output is their input ---------------------------

// docs:begin autograd-functions
Tensor custom_autograd_fn_returns_self(const Tensor& input) {
  return input;
}

Tensor custom_autograd_fn_aliasing(const Tensor& input) {
  return input.view_as(input);
}

namespace {

template <Tensor (*kernel)(const Tensor&)>
struct HalvesGradient : Function<HalvesGradient<kernel>> {
  static Tensor forward(AutogradContext* /*context*/, const Tensor& input) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return kernel(input);
  }
  static variable_list backward(
      AutogradContext* /*context*/,
      const variable_list& grads) {
    return {grads[0].mul(0.5)};
  }
};

} // namespace

Tensor custom_autograd_fn_returns_self_autograd(const Tensor& input) {
  return HalvesGradient<custom_autograd_fn_returns_self>::apply(input);
}

Tensor custom_autograd_fn_aliasing_autograd(const Tensor& input) {
  return HalvesGradient<custom_autograd_fn_aliasing>::apply(input);
}
// docs:end autograd-functions

} // namespace at::native::openreg
