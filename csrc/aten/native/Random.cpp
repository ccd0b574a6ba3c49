#include "aten/native/Random.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>

namespace at::native::openreg {

// The CPU kernel would draw from the CPU's generator. These are the steps of dropout on
// the CPU, rounding included, with operators of this device. Their temporaries become
// the result, since a GPU's kernel has none.
std::tuple<Tensor, Tensor> native_dropout(
    const Tensor& input,
    double p,
    std::optional<bool> train) {
  if (!train.value_or(true) || input.numel() == 0) {
    return {input.clone(), at::ones_like(input, input.options().dtype(kBool))};
  }
  Tensor noise = at::empty_like(input).bernoulli_(1 - p);
  Tensor mask = noise.to(kBool);
  return {p == 1 ? noise : noise.div_(1 - p).mul_(input), mask};
}

Tensor native_dropout_backward(
    const Tensor& grad_output,
    const Tensor& mask,
    double scale) {
  if (!grad_output.is_floating_point() && !grad_output.is_complex()) {
    return grad_output.mul(mask).mul(scale);
  }
  Tensor kept = mask.to(grad_output.dtype());
  return scale == 0 ? kept.mul_(grad_output).mul_(0)
                    : kept.div_(1 / scale).mul_(grad_output);
}

} // namespace at::native::openreg
