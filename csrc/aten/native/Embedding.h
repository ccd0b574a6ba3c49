// The gradient of an embedding's table.
#pragma once

#include <ATen/core/Tensor.h>

namespace at::native::openreg {

/// Copies arguments that are not contiguous, as CUDA does: a program's memory is
/// to be that on a GPU.
Tensor embedding_dense_backward(
    const Tensor& grad_output,
    const Tensor& indices,
    c10::SymInt num_weights,
    c10::SymInt padding_idx,
    bool scale_grad_by_freq);

} // namespace at::native::openreg
