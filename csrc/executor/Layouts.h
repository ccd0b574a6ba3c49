// Sparse, quantized and nested tensors at the border of Alias.h: what they are made
// of crosses as strided tensors do.
#pragma once

#include "executor/Alias.h"

#include <ATen/core/QuantizerBase.h>

#include <functional>

namespace at::native::openreg {

/// Whether a tensor is more than sizes and strides over a storage.
inline bool hasLayout(const c10::TensorImpl* tensor) {
  constexpr c10::DispatchKeySet kLayouts(
      {c10::DispatchKey::Sparse,
       c10::DispatchKey::SparseCsr,
       c10::DispatchKey::Quantized,
       c10::DispatchKey::NestedTensor});
  return tensor->key_set().has_any(kLayouts);
}

// docs:begin layouts
/// AliasFrame's alias(), wrap() and finish() for such tensors. A sparse tensor is
/// indices and values, a quantized one a storage and a quantizer, which may have
/// tensors of its own, a nested one a storage and sizes, which are on the CPU.
// docs:end layouts
Tensor aliasLayout(AliasFrame& frame, const Tensor& tensor);
Tensor wrapLayout(AliasFrame& frame, const Tensor& result);
void finishLayout(
    AliasFrame& frame,
    const Tensor& output,
    const Tensor& changed);

/// A quantizer whose scales and zero points, if they are tensors, went through
/// `cross`.
QuantizerPtr crossQuantizer(
    const QuantizerPtr& quantizer,
    const std::function<Tensor(const Tensor&)>& cross);

} // namespace at::native::openreg
