// Sparse, quantized and nested tensors: what they are made of.
#pragma once

#include <ATen/core/QuantizerBase.h>
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

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
/// Carries the parts of a tensor across the border between the device and CPU kernels. A
/// sparse tensor consists of indices and values; a quantized one of a storage and a
/// quantizer, which may have tensors of its own; a nested one of a storage and of sizes,
/// which are on the CPU.
// docs:end layouts
struct PartCrossing {
  c10::Device device; // of the other side
  c10::function_ref<Tensor(const Tensor&)> tensor;
  c10::function_ref<c10::Storage(const c10::Storage&)> storage;
};

/// The same tensor on the other side.
Tensor crossLayout(const Tensor& tensor, const PartCrossing& cross);

/// Moves the parts of `result`, which has the same layout and device, to `output`.
void setLayout(const Tensor& output, const Tensor& result);

namespace detail {
void checkNotReleased(const Tensor& tensor);
void beginWritingParts(const Tensor& tensor);
} // namespace detail

/// Refuses a tensor of the device with elements but without memory.
inline void checkMemory(const Tensor& tensor) {
  const c10::StorageImpl* storage =
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (C10_UNLIKELY(storage && !storage->data())) {
    detail::checkNotReleased(tensor);
  }
}

/// Gives a tensor that a kernel will write to memory of its own: beginWrite() for
/// everything that it is made of.
inline void beginWriting(const Tensor& tensor) {
  const c10::StorageImpl* storage =
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (C10_UNLIKELY(!storage || storage->has_materializer())) {
    detail::beginWritingParts(tensor);
  }
}

/// A quantizer whose scales and zero points, if they are tensors, went through
/// `cross`.
QuantizerPtr crossQuantizer(
    const QuantizerPtr& quantizer,
    c10::function_ref<Tensor(const Tensor&)> cross);

} // namespace at::native::openreg
