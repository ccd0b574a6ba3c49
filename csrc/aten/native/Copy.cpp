#include "aten/native/Copy.h"

#include "executor/HandKernel.h"
#include "executor/Layouts.h"
#include "executor/OperatorKernel.h"
#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegCapture.h"
#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegHostAllocator.h"
#include "runtime/OpenRegLostMemory.h"
#include "runtime/OpenRegObserver.h"
#include "runtime/OpenRegStorage.h"
#include "runtime/OpenRegSyncDebug.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/real.h>
#include <ATen/quantized/QTensorImpl.h>

namespace at::native::openreg {
namespace {

// Whether the bytes can be copied without changing their order.
bool sameLayout(const Tensor& a, const Tensor& b) {
  const bool sameStrides =
      (a.strides() == b.strides() && a.is_non_overlapping_and_dense()) ||
      (a.is_contiguous() && b.is_contiguous()); // whatever those of size 1 are
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && sameStrides &&
      a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

// --- on one device ------------------------------------------------------------

void copyOnDevice(const Tensor& src, const Tensor& dst) {
  const OpenRegStream stream = streamOf(dst);
  if (sameLayout(src, dst) && !src.is_alias_of(dst)) {
    c10::openreg::submitCopy(
        dst.mutable_data_ptr(),
        src.const_data_ptr(),
        dst.nbytes(),
        orMemcpyDeviceToDevice,
        stream);
    return;
  }
  launch(
      "aten::copy_",
      stream,
      {.reads = {&src}, .writes = {&dst}},
      [](std::span<Tensor> aliases) {
        callCpuKernel<at::_ops::copy_>(
            aliases[1], aliases[0], /*non_blocking=*/false);
      });
}

// --- between devices ----------------------------------------------------------

// docs:begin peer-copy
// The copy runs in the current stream of the source, after what both devices have
// queued, and later work of the destination waits for it: as on CUDA.
void copyBetweenDevices(const Tensor& src, const Tensor& dst) {
  if (!sameLayout(src, dst)) {
    const Tensor packed = src.resolve_conj().resolve_neg().to(dst.dtype());
    const Tensor there = at::empty(dst.sizes(), dst.options());
    copyBetweenDevices(packed.contiguous(), there);
    copyOnDevice(there, dst);
    return;
  }
  const OpenRegStream from = streamOf(src), to = streamOf(dst);
  c10::openreg::OpenRegEvent ready, done;
  ready.record(to);
  ready.block(from);
  const auto list = [&](std::vector<MemoryAccess>& accesses) {
    listAccess(src, /*writes=*/false, accesses);
    listAccess(dst, /*writes=*/true, accesses);
  };
  OPENREG_CHECK(
      c10::openreg::submit({"peer copy", from, list}, [&](orStream_t handle) {
        return orMemcpyPeerAsync(
            dst.mutable_data_ptr(),
            dst.get_device(),
            src.const_data_ptr(),
            src.get_device(),
            dst.nbytes(),
            handle);
      }));
  done.record(from);
  done.block(to);
}
// docs:end peer-copy

// --- between host and device --------------------------------------------------

// Pinned memory must not be handed out again before the copy has run.
void noteUse(const Tensor& host, const OpenRegStream& stream) {
  const auto& storage = host.storage().data_ptr();
  c10::openreg::getOpenRegHostAllocator()->record_event(
      const_cast<void*>(host.const_data_ptr()), storage.get_context(), stream);
}

// docs:begin copy-bytes
void copyBytes(const Tensor& src, const Tensor& dst, bool non_blocking) {
  const bool toDevice = isOpenReg(dst);
  const Tensor& host = toDevice ? src : dst;
  const OpenRegStream stream = streamOf(toDevice ? dst : src);
  const bool capturing = c10::openreg::isCapturing(stream);
  // A graph could not find pageable memory again.
  TORCH_CHECK(
      !capturing || c10::openreg::isPinned(host.const_data_ptr()),
      "Cannot copy between CPU and ",
      c10::openreg::deviceTitle(),
      " tensors during ",
      c10::openreg::deviceTitle(),
      " graph capture unless the CPU tensor is pinned. Please use "
      "tensor.pin_memory() or allocate the tensor with pin_memory=True.");
  if (!non_blocking) {
    c10::openreg::noteSynchronization(stream); // before anything is copied
  }
  c10::openreg::submitCopy(
      dst.mutable_data_ptr(),
      src.const_data_ptr(),
      dst.nbytes(),
      toDevice ? orMemcpyHostToDevice : orMemcpyDeviceToHost,
      stream);
  if (non_blocking) {
    if (!capturing) { // else whoever replays keeps the memory
      noteUse(host, stream);
    }
  } else {
    OPENREG_CHECK(orStreamSynchronize(stream));
    c10::openreg::observe(
        &c10::openreg::RuntimeObserver::onHostWaitForStream, stream.stream());
  }
}
// docs:end copy-bytes

// Only plain bytes cross the border. If the caller does not wait, the device converts
// dtypes, in the order of the stream, because the host's memory may be the destination
// of an earlier copy. Otherwise the host converts them, which takes no memory of the
// device. Both are as on CUDA. Temporaries of the host are pageable, and a copy of
// pageable memory keeps nothing of it.
void copyAcross(const Tensor& src, const Tensor& dst, bool non_blocking) {
  if (sameLayout(src, dst)) {
    copyBytes(src, dst, non_blocking);
    return;
  }
  const bool convertFirst = isOpenReg(src) == non_blocking;
  const Tensor from =
      (convertFirst ? src.resolve_conj().resolve_neg().to(dst.dtype()) : src)
          .contiguous();
  if (sameLayout(from, dst)) {
    copyBytes(from, dst, non_blocking);
    return;
  }
  const Tensor to = at::empty(dst.sizes(), dst.options().dtype(from.dtype()));
  to._set_conj(from.is_conj());
  to._set_neg(from.is_neg());
  copyBytes(from, to, non_blocking);
  dst.copy_(to);
}

// A queued copy would warn from another thread, where Python's filters do not apply.
c10::MaybeOwned<Tensor> withoutImaginaryPart(
    const Tensor& src,
    const Tensor& dst) {
  if (!src.is_complex() || dst.is_complex() || dst.scalar_type() == kBool) {
    return c10::MaybeOwned<Tensor>::borrowed(src);
  }
  TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");
  return c10::MaybeOwned<Tensor>::owned(at::real(src));
}

// --- quantized ----------------------------------------------------------------

// What PyTorch checks and sets for its own devices before it copies. The scales of the
// source may be on another device.
void takeQuantizer(const Tensor& src, const Tensor& dst) {
  TORCH_CHECK(
      src.qscheme() == dst.qscheme(),
      "Quantized Copy only works with same qscheme");
  TORCH_CHECK(src.scalar_type() == dst.scalar_type());
  const auto quantizerOf = [](const Tensor& tensor) {
    return static_cast<QTensorImpl*>(tensor.unsafeGetTensorImpl());
  };
  quantizerOf(dst)->set_quantizer_(crossQuantizer(
      quantizerOf(src)->quantizer(),
      [&](const Tensor& part) { return part.to(dst.device()); }));
}

// The numbers behind a quantized tensor: they are copied as they are.
Tensor integersOf(const Tensor& tensor) {
  auto integers = at::detail::make_tensor<c10::TensorImpl>(
      Storage(tensor.storage()),
      c10::DispatchKeySet(
          isOpenReg(tensor) ? c10::openreg::kKey : c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(c10::toUnderlying(tensor.scalar_type())));
  integers.unsafeGetTensorImpl()->set_sizes_and_strides(
      tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return integers;
}

// The CPU's kernel rounds, and refuses what it does not support.
void quantize(const Tensor& src, Tensor dst) {
  if (isOpenReg(dst)) {
    WaitingKernel<at::_ops::copy_>::call(
        dst, src.to(dst.device()), /*non_blocking=*/false);
  } else {
    dst.copy_(src.to(dst.device()));
  }
}

} // namespace

void beginOverwrite(const Tensor& tensor) {
  beginWriting(tensor);
  if (C10_LIKELY(!c10::openreg::detail::anyMemoryLost.load())) {
    return;
  }
  const Storage& storage = tensor.storage();
  if (tensor.nbytes() == storage.nbytes() &&
      tensor.is_non_overlapping_and_dense()) {
    c10::openreg::forgetLost(storage.data());
  } else {
    c10::openreg::checkNotLost(storage.data());
  }
}

Tensor _copy_from(const Tensor& self, const Tensor& dst, bool non_blocking) {
  TORCH_CHECK(self.defined() && dst.defined(), "copy of an undefined tensor");
  if (self.sizes() != dst.sizes()) {
    at::infer_size(dst.sizes(), self.sizes()); // for its sentence
  }
  // The CPU's kernel negates what it has copied; a queued one could not report an
  // error.
  TORCH_CHECK_NOT_IMPLEMENTED(
      self.is_neg() == dst.is_neg() || dst.scalar_type() != kBool,
      "\"neg_cpu\" not implemented for 'Bool'");
  TORCH_CHECK(
      dst.is_quantized() || !self.is_quantized(),
      "Copying from quantized Tensor to non-quantized Tensor is not allowed, "
      "please use dequantize to get a float Tensor from a quantized Tensor");
  if (dst.is_quantized() && !self.is_quantized()) {
    quantize(self, dst);
    return dst;
  }
  if (dst.is_quantized()) {
    takeQuantizer(self, dst);
    openreg::_copy_from(integersOf(self), integersOf(dst), non_blocking);
    return dst;
  }
  const auto values = withoutImaginaryPart(self, dst);
  at::assert_no_internal_overlap(dst);
  at::assert_no_partial_overlap(dst, self);
  const auto expanded = at::expand_size(*values, dst.sizes());
  const Tensor& src = *expanded;
  if (dst.numel() == 0) {
    return dst;
  }
  checkMemory(src);
  checkMemory(dst);
  if (isOpenReg(src)) {
    c10::openreg::checkNotLost(src.storage().data());
  }
  if (isOpenReg(dst)) {
    beginOverwrite(dst);
  }
  if (!isOpenReg(src) || !isOpenReg(dst)) {
    copyAcross(src, dst, non_blocking);
  } else if (src.device() == dst.device()) {
    copyOnDevice(src, dst);
  } else {
    copyBetweenDevices(src, dst);
  }
  return dst;
}

Tensor _copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  dst.resize_(self.sizes());
  return openreg::_copy_from(self, dst, /*non_blocking=*/false);
}

// --- with what is known of the memory -------------------------------------------

namespace {

Tensor described(Tensor made, const Tensor& original) {
  if (made.layout() == kStrided && isOpenReg(made)) {
    c10::openreg::copyDescription(original.storage(), made.storage());
  }
  return made;
}

} // namespace

Tensor clone(const Tensor& self, std::optional<MemoryFormat> format) {
  return described(at::native::clone(self, format), self);
}

Tensor _to_copy(
    const Tensor& self,
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory,
    bool non_blocking,
    std::optional<MemoryFormat> format) {
  Tensor made = at::native::_to_copy(
      self, dtype, layout, device, pin_memory, non_blocking, format);
  return described(std::move(made), self);
}

} // namespace at::native::openreg
