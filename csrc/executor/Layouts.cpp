#include "executor/Layouts.h"

#include "runtime/OpenRegCopyOnWrite.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>
#include <c10/core/DeviceGuard.h>

namespace at::native::openreg {
namespace {

using c10::DispatchKeySet;
using c10::TensorImpl;

DispatchKeySet keysOn(c10::Device device, c10::DispatchKey functionality) {
  const auto backend =
      device.is_cpu() ? c10::DispatchKey::CPU : c10::openreg::kKey;
  return DispatchKeySet(functionality) |
      DispatchKeySet(c10::toBackendComponent(backend));
}

template <class Impl>
Impl* as(const Tensor& tensor) {
  return static_cast<Impl*>(tensor.unsafeGetTensorImpl());
}

// --- sparse: coordinates ------------------------------------------------------

void setParts(
    const Tensor& to,
    const Tensor& like,
    const Tensor& indices,
    const Tensor& values) {
  const auto* source = as<SparseTensorImpl>(like);
  auto* impl = as<SparseTensorImpl>(to);
  impl->raw_resize_(source->sparse_dim(), source->dense_dim(), source->sizes());
  impl->set_indices_and_values_unsafe(indices, values);
  impl->set_coalesced(source->coalesced());
}

Tensor crossSparse(const Tensor& tensor, const PartCrossing& cross) {
  const auto* source = as<SparseTensorImpl>(tensor);
  const c10::DeviceGuard guard(cross.device); // an empty one is made here
  auto result = at::detail::make_tensor<SparseTensorImpl>(
      keysOn(cross.device, c10::DispatchKey::Sparse), source->dtype());
  setParts(
      result,
      tensor,
      cross.tensor(source->indices()),
      cross.tensor(source->values()));
  return result;
}

// --- sparse: compressed -------------------------------------------------------

Tensor crossCompressed(const Tensor& tensor, const PartCrossing& cross) {
  const auto* source = as<SparseCsrTensorImpl>(tensor);
  auto result = at::detail::make_tensor<SparseCsrTensorImpl>(
      keysOn(cross.device, c10::DispatchKey::SparseCsr),
      cross.device,
      tensor.layout(),
      source->dtype());
  as<SparseCsrTensorImpl>(result)->set_member_tensors(
      cross.tensor(source->compressed_indices()),
      cross.tensor(source->plain_indices()),
      cross.tensor(source->values()),
      source->sizes());
  return result;
}

// --- quantized and nested: a storage with a description ------------------------

Tensor crossQuantized(const Tensor& tensor, const PartCrossing& cross) {
  auto* source = as<QTensorImpl>(tensor);
  auto result = at::detail::make_tensor<QTensorImpl>(
      cross.storage(tensor.storage()),
      keysOn(cross.device, c10::DispatchKey::Quantized),
      source->dtype(),
      crossQuantizer(source->quantizer(), cross.tensor));
  result.unsafeGetTensorImpl()->set_sizes_and_strides(
      source->sizes(), source->strides(), source->storage_offset());
  return result;
}

// The sizes of a nested tensor are on the CPU, wherever its memory is.
Tensor crossNested(const Tensor& tensor, const PartCrossing& cross) {
  const auto* source = as<NestedTensorImpl>(tensor);
  return at::detail::make_tensor<NestedTensorImpl>(
      cross.storage(tensor.storage()),
      keysOn(cross.device, c10::DispatchKey::NestedTensor),
      source->dtype(),
      source->get_nested_sizes(),
      source->get_nested_strides(),
      source->get_storage_offsets());
}

} // namespace

QuantizerPtr crossQuantizer(
    const QuantizerPtr& quantizer,
    c10::function_ref<Tensor(const Tensor&)> cross) {
  const auto* channels =
      dynamic_cast<PerChannelAffineQuantizer*>(quantizer.get());
  if (!channels) {
    return quantizer;
  }
  const Tensor scales = cross(channels->scales());
  const Tensor zeros = cross(channels->zero_points());
  if (channels->qscheme() == kPerChannelAffineFloatQParams) {
    return c10::make_intrusive<PerChannelAffineFloatQParamsQuantizer>(
        channels->scalar_type(), scales, zeros, channels->axis());
  }
  return c10::make_intrusive<PerChannelAffineQuantizer>(
      channels->scalar_type(), scales, zeros, channels->axis());
}

Tensor crossLayout(const Tensor& tensor, const PartCrossing& cross) {
  if (tensor.is_sparse()) {
    return crossSparse(tensor, cross);
  }
  if (tensor.is_quantized()) {
    return crossQuantized(tensor, cross);
  }
  if (tensor.is_nested()) {
    return crossNested(tensor, cross);
  }
  return crossCompressed(tensor, cross);
}

void setLayout(const Tensor& output, const Tensor& result) {
  if (output.is_sparse()) {
    const auto* source = as<SparseTensorImpl>(result);
    setParts(output, result, source->indices(), source->values());
  } else if (output.is_quantized()) {
    as<QTensorImpl>(output)->set_quantizer_(
        as<QTensorImpl>(result)->quantizer());
  } else if (!output.is_nested()) {
    const auto* source = as<SparseCsrTensorImpl>(result);
    as<SparseCsrTensorImpl>(output)->set_member_tensors(
        source->compressed_indices(),
        source->plain_indices(),
        source->values(),
        source->sizes());
  }
}

void detail::checkNotReleased(const Tensor& tensor) {
  TORCH_CHECK(
      !isOpenReg(tensor) || tensor.numel() == 0 || tensor._is_zerotensor() ||
          tensor.is_nested(),
      "a tensor of shape ",
      tensor.sizes(),
      " on ",
      tensor.device(),
      " needs ",
      tensor.nbytes(),
      " bytes, but its storage was released and has ",
      tensor.storage().nbytes(),
      "; give it memory again with untyped_storage().resize_()");
}

void detail::beginWritingParts(const Tensor& tensor) {
  if (!isOpenReg(tensor)) {
    return;
  }
  const auto beginStorage = [](const Storage& storage) {
    c10::openreg::beginWrite(*storage.unsafeGetStorageImpl());
    return storage;
  };
  if (tensor.has_storage()) {
    beginStorage(tensor.storage());
    return;
  }
  const auto beginPart = [](const Tensor& part) {
    beginWriting(part);
    return part;
  };
  crossLayout(tensor, {tensor.device(), beginPart, beginStorage});
}

} // namespace at::native::openreg
