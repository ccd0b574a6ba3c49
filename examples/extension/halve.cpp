// An operator of a project outside of torch_openreg, with a kernel that is queued.
#include <torch_openreg/executor/HandKernel.h>
#include <torch_openreg/executor/OperatorKernel.h>

#include <ATen/ATen.h>
#include <ATen/ops/mul_ops.h>
#include <torch/library.h>

using at::Tensor;
namespace ops = at::native::openreg;

// Checks the arguments, allocates the output, queues the work and returns.
Tensor halve(const Tensor& x) {
  TORCH_CHECK(
      x.is_floating_point(),
      "halve needs a floating-point tensor, but got ",
      x.scalar_type());
  Tensor y = at::empty_like(x);
  ops::launch(
      "demo::halve",
      ops::streamOf(x),
      {.reads = {&x}, .writes = {&y}},
      [](std::span<Tensor> aliases) {
        ops::callCpuKernel<at::_ops::mul_Scalar_out>(
            aliases[0], at::Scalar(0.5), aliases[1]);
      });
  return y;
}

TORCH_LIBRARY(demo, m) {
  m.def("halve(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(demo, PrivateUse1, m) {
  m.impl("halve", halve);
}
