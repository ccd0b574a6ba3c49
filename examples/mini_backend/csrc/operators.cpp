// The operators without which there is no tensor, a kernel, and a way to the CPU
// for all others.
#include "driver.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <algorithm>

namespace mini {
using namespace at;

Tensor empty_strided(
    IntArrayRef size,
    IntArrayRef stride,
    std::optional<ScalarType> dtype,
    std::optional<Layout> /*layout*/,
    std::optional<Device> device,
    std::optional<bool> /*pin_memory*/) {
  const OptionalDeviceGuard guard(device);
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  auto* memory = GetAllocator(kPrivateUse1);
  return at::detail::empty_strided_generic(
      size, stride, memory, keys, dtype_or_default(dtype));
}

Tensor empty(
    IntArrayRef size,
    std::optional<ScalarType> dtype,
    std::optional<Layout> /*layout*/,
    std::optional<Device> device,
    std::optional<bool> /*pin_memory*/,
    std::optional<MemoryFormat> format) {
  const Tensor like = at::empty(size, at::device(kMeta), format);
  return mini::empty_strided(size, like.strides(), dtype, {}, device, {});
}

Tensor& set_offset(
    Tensor& self,
    Storage storage,
    int64_t offset,
    IntArrayRef size,
    IntArrayRef stride) {
  const size_t bytes = stride.data()
      ? at::detail::computeStorageNbytes(size, stride, self.itemsize(), offset)
      : at::detail::computeStorageNbytesContiguous(
            size, self.itemsize(), offset);
  if (bytes > storage.nbytes()) {
    native::resize_bytes_nocuda(storage, bytes);
  }
  return native::set_storage_cpu_(
      self, std::move(storage), offset, size, stride);
}

// The bytes from the first element to the last, on the host.
Tensor toHost(const Tensor& self) {
  if (self.is_cpu()) {
    return self;
  }
  const DeviceGuard on(self.device());
  Tensor host = at::empty_strided(
      self.sizes(), self.strides(), self.options().device(kCPU));
  miniMemcpy(host.data_ptr(), self.data_ptr(), host.storage().nbytes());
  host._set_conj(self.is_conj());
  host._set_neg(self.is_neg());
  return host;
}

// Whether the device can copy by itself: equal bytes, and pinned memory on the host.
bool isPlainCopy(const Tensor& from, const Tensor& to, bool non_blocking) {
  const auto stays = [&](const Tensor& host) {
    return host.is_cpu() && non_blocking && miniIsPinned(host.const_data_ptr());
  };
  return from.dtype() == to.dtype() && from.sizes() == to.sizes() &&
      from.is_contiguous() && to.is_contiguous() &&
      from.is_conj() == to.is_conj() && from.is_neg() == to.is_neg() &&
      (from.device() == to.device() || stays(from) || stays(to));
}

// Otherwise the driver moves bytes, and the host arranges strides, dtypes and lazy
// conjugation. The bytes between the elements of `to` come back unchanged.
Tensor _copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  const DeviceGuard on(to.is_cpu() ? from.device() : to.device());
  if (isPlainCopy(from, to, non_blocking)) {
    miniMemcpyAsync(to.data_ptr(), from.data_ptr(), from.nbytes());
    return to;
  }
  Tensor host = toHost(to);
  host.copy_(toHost(from));
  if (!to.is_cpu()) {
    miniMemcpy(to.data_ptr(), host.data_ptr(), host.storage().nbytes());
  }
  return to;
}

Tensor _copy_from_and_resize(const Tensor& from, const Tensor& to) {
  if (to.sizes() != from.sizes()) {
    Tensor same = to;
    set_offset(
        same, to.storage(), to.storage_offset(), from.sizes(), from.strides());
  }
  return mini::_copy_from(from, to, false);
}

// A kernel of the device.
Tensor relu(const Tensor& self) {
  TORCH_CHECK(self.dtype() == kFloat, "relu is for floats, not ", self.dtype());
  const DeviceGuard on(self.device());
  const Tensor in = self.contiguous();
  Tensor out = at::empty_like(in);
  const auto* x = static_cast<float*>(miniKernelAddress(in.const_data_ptr()));
  auto* y = static_cast<float*>(miniKernelAddress(out.mutable_data_ptr()));
  miniLaunch([x, y, n = in.numel()] {
    std::transform(x, x + n, y, [](float v) { return v > 0 ? v : 0; });
  });
  return out;
}

// Copies the arguments to the host, runs the CPU's kernel, copies results back. Devices are
// compared first; numbers and lengths of sequences may be on the CPU. CPU kernels insist on
// a CPU generator, so a temporary one gets the state of ours.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  IValue* generator = nullptr;
  Generator ours, lent;
  std::optional<Device> common;
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    IValue& value = (*stack)[stack->size() - arguments.size() + i];
    const std::string& name = arguments[i].name();
    const auto check = [&](const Tensor& tensor) {
      if (tensor.defined() && (!tensor.is_cpu() || tensor.dim() > 0) &&
          name != "lengths") {
        c10::impl::check_and_update_common_device(
            common, tensor, op.schema().name().c_str(), name.c_str());
      }
    };
    if (value.isTensor()) {
      check(value.toTensor());
    } else if (value.isTensorList()) {
      std::ranges::for_each(value.toTensorVector(), check);
    } else if (arguments[i].type()->str() == "Generator?") {
      generator = &value;
    }
  }
  if (generator) {
    ours = generator->toOptional<Generator>().value_or(
        globalContext().defaultGenerator(common.value_or(kPrivateUse1)));
    const auto from = ours.device();
    TORCH_CHECK(!from.is_cpu(), "mini takes no generator of ", from);
    *generator = lent = at::detail::createCPUGenerator();
    lent.set_state(ours.get_state());
  }
  native::cpu_fallback(op, stack, /*error_on_views=*/true);
  if (lent.defined()) {
    ours.set_state(lent.get_state());
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", mini::_copy_from);
  m.impl("_copy_from_and_resize", mini::_copy_from_and_resize);
  m.impl("_reshape_alias", native::_reshape_alias);
  m.impl("as_strided", native::as_strided_tensorimpl);
  m.impl("empty.memory_format", mini::empty);
  m.impl("empty_strided", mini::empty_strided);
  m.impl("relu", mini::relu);
  m.impl("set_.source_Storage", native::set_);
  m.impl("set_.source_Storage_storage_offset", mini::set_offset);
  m.impl("unfold", native::unfold);
  m.impl("view", [](const Tensor& self, IntArrayRef size) {
    return native::view(self, size);
  });
  m.impl("view_as_complex", native::view_as_complex);
  m.impl("view_as_real", native::view_as_real);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

// A copy resolves lazy conjugation itself; the generic kernels of these keys would
// copy first, and so on without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

} // namespace mini
