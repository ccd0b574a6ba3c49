// Registration of the operators that show the ways a backend adds its own. The
// same from Python is in examples/custom_operator.py.
#include "executor/BoxedKernel.h"
#include "aten/native/Extra.h"

#include <ATen/native/UnaryOps.h>
#include <ATen/ops/abs_native.h>
#include "runtime/OpenRegLibrary.h"

namespace at::native {

namespace ops = openreg;

// docs:begin stub-registration
// A structured or stub-based operator: PyTorch's code checks the arguments and
// makes the output, and finds the kernel by the device of the tensors.
REGISTER_PRIVATEUSE1_DISPATCH(abs_stub, &ops::abs_kernel)

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("abs.out", TORCH_FN(at::native::abs_out));
}
// docs:end stub-registration

// docs:begin operator-fallback
// One operator by the fallback that serves all others too.
OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(
      "vdot",
      torch::CppFunction::makeFromBoxedFunction<&ops::wrapper_cpu_fallback>());
}
// docs:end operator-fallback

// docs:begin global-fallback
// Every operator of every namespace that has no kernel of ours.
OPENREG_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(
      torch::CppFunction::makeFromBoxedFunction<&ops::wrapper_cpu_fallback>());
}
// docs:end global-fallback

// docs:begin own-namespace
// A namespace of our own: schemas, kernels, autograd. The meta kernel is in
// torch_openreg/openreg/meta.py.
TORCH_LIBRARY(openreg, m) {
  m.def("custom_abs(Tensor input) -> Tensor");
  m.def("custom_autograd_fn_returns_self(Tensor input) -> Tensor");
  m.def("custom_autograd_fn_aliasing(Tensor(a) input) -> Tensor(a)");
}

OPENREG_LIBRARY_IMPL(openreg, PrivateUse1, m) {
  m.impl("custom_abs", TORCH_FN(ops::custom_abs));
}

OPENREG_LIBRARY_IMPL(openreg, AutogradPrivateUse1, m) {
  m.impl("custom_abs", TORCH_FN(ops::custom_abs_autograd));
}

// Kernels that do not look at values serve every device, the meta device too.
TORCH_LIBRARY_IMPL(openreg, CompositeExplicitAutograd, m) {
  m.impl(
      "custom_autograd_fn_returns_self",
      TORCH_FN(ops::custom_autograd_fn_returns_self));
  m.impl(
      "custom_autograd_fn_aliasing",
      TORCH_FN(ops::custom_autograd_fn_aliasing));
}

TORCH_LIBRARY_IMPL(openreg, Autograd, m) {
  m.impl(
      "custom_autograd_fn_returns_self",
      TORCH_FN(ops::custom_autograd_fn_returns_self_autograd));
  m.impl(
      "custom_autograd_fn_aliasing",
      TORCH_FN(ops::custom_autograd_fn_aliasing_autograd));
}
// docs:end own-namespace

// docs:begin existing-namespace
// An operator added to PyTorch's namespace, with its meta kernel in C++.
TORCH_LIBRARY_FRAGMENT(aten, m) {
  m.def("openreg_scale(Tensor self, float factor) -> Tensor");
}

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("openreg_scale", TORCH_FN(ops::openreg_scale));
}

OPENREG_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("openreg_scale", TORCH_FN(ops::openreg_scale_autograd));
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("openreg_scale", TORCH_FN(ops::openreg_scale_meta));
}
// docs:end existing-namespace

} // namespace at::native
