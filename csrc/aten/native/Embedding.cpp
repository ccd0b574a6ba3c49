#include "aten/native/Embedding.h"

#include "executor/OperatorKernel.h"

#include <ATen/ops/embedding_dense_backward_ops.h>

namespace at::native::openreg {

Tensor embedding_dense_backward(
    const Tensor& grad_output,
    const Tensor& indices,
    c10::SymInt num_weights,
    c10::SymInt padding_idx,
    bool scale_grad_by_freq) {
  return CachedKernel<at::_ops::embedding_dense_backward>::call(
      grad_output.contiguous(),
      indices.contiguous(),
      std::move(num_weights),
      std::move(padding_idx),
      scale_grad_by_freq);
}

} // namespace at::native::openreg
