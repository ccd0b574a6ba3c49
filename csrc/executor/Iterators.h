// Iterators over device tensors for the CPU's kernels, without a tensor in between.
#pragma once

#include <ATen/TensorIterator.h>

namespace at::native::openreg {

/// Whether the CPU casts operands while it builds such an iterator. `given`: its outputs
/// are there already.
bool castsOperands(TensorIteratorBase& iterator, bool given);

/// Whether outputs that the CPU makes would have the strides of this iterator's outputs.
bool keepsStrides(TensorIteratorBase& iterator);

/// Points an iterator over device tensors at their memory. Its kernel is the CPU's then.
void pointAtMemory(TensorIteratorBase& iterator);

} // namespace at::native::openreg
