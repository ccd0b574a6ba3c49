#include "aten/native/DataChecks.h"

#include "executor/HandKernel.h"
#include "executor/OperatorKernel.h"

#include <ATen/ops/_assert_async_ops.h>
#include <ATen/ops/_index_put_impl_ops.h>

namespace at::native::openreg {

void _assert_async(const Tensor& self) {
  _assert_async_msg(self, "Expected Tensor to have a nonzero value");
}

void _assert_async_msg(const Tensor& self, std::string_view assert_msg) {
  TORCH_CHECK(
      self.numel() != 0, "Boolean value of Tensor with no values is ambiguous");
  TORCH_CHECK(
      self.numel() < 2,
      "Boolean value of Tensor with more than one value is ambiguous");
  launch(
      "aten::_assert_async",
      streamOf(self),
      {.reads = {&self}},
      [message = std::string(assert_msg)](std::span<Tensor> aliases) {
        callCpuKernel<at::_ops::_assert_async_msg>(aliases[0], message);
      });
}

Tensor& _index_put_impl_(
    Tensor& self,
    const c10::List<std::optional<Tensor>>& indices,
    const Tensor& values,
    bool accumulate,
    bool unsafe) {
  using Op = at::_ops::_index_put_impl_;
  bool masks = false;
  visitTensors(argument(indices), [&](const Tensor& index) {
    masks |= index.scalar_type() == kBool || index.scalar_type() == kByte;
  });
  return masks
      ? WaitingKernel<Op>::call(self, indices, values, accumulate, unsafe)
      : CachedKernel<Op>::call(self, indices, values, accumulate, unsafe);
}

} // namespace at::native::openreg
