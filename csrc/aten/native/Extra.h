// Operators that show, one each, the ways a backend adds its own.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>

namespace at::native::openreg {

/// Behind aten::abs: a kernel for PyTorch's own stub of the operator.
void abs_kernel(TensorIteratorBase& iter);

/// openreg::custom_abs: the kernel, and the half that autograd sees.
Tensor custom_abs(const Tensor& input);
Tensor custom_abs_autograd(const Tensor& input);

/// aten::openreg_scale, an operator added to an existing namespace.
Tensor openreg_scale(const Tensor& self, double factor);
Tensor openreg_scale_autograd(const Tensor& self, double factor);
Tensor openreg_scale_meta(const Tensor& self, double factor);

/// Autograd functions in C++: the forward returns its input, or a view of it; the
/// backward halves the gradient. Without autograd, in inference mode, only the
/// kernels are called.
Tensor custom_autograd_fn_returns_self(const Tensor& input);
Tensor custom_autograd_fn_returns_self_autograd(const Tensor& input);
Tensor custom_autograd_fn_aliasing(const Tensor& input);
Tensor custom_autograd_fn_aliasing_autograd(const Tensor& input);

} // namespace at::native::openreg
