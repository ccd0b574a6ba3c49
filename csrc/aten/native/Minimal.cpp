#include "aten/native/Minimal.h"

#include "aten/native/Copy.h"
#include "executor/DeviceTensor.h"
#include "executor/HandKernel.h"
#include "executor/OperatorKernel.h"
#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegGuard.h"
#include "runtime/OpenRegHooks.h"
#include "runtime/OpenRegLostMemory.h"
#include "runtime/OpenRegObserver.h"
#include "runtime/OpenRegSyncDebug.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/set_native.h>

namespace at::native::openreg {

using c10::openreg::getOpenRegDeviceAllocator;
using c10::openreg::kKeySet;
using c10::openreg::OpenRegGuard;

namespace {

/// Checks the options a factory got, and makes the device current.
class FactoryGuard {
 public:
  FactoryGuard(
      std::optional<Layout> layout,
      std::optional<Device> device,
      std::optional<bool> pin_memory)
      : guard_(indexOf(device)) {
    TORCH_CHECK(
        layout_or_default(layout) == kStrided,
        "openreg tensors are strided, but the layout asked for is ",
        *layout);
    TORCH_CHECK(
        !pinned_memory_or_default(pin_memory),
        "Only dense CPU tensors can be pinned");
  }

 private:
  static DeviceIndex indexOf(std::optional<Device> device) {
    return device && device->has_index() ? device->index()
                                         : c10::openreg::current_device();
  }

  const OpenRegGuard guard_;
};

/// Whether memory that nobody has written must have known contents.
bool fillsNewMemory() {
  const Context& context = globalContext();
  return context.deterministicAlgorithms() &&
      context.deterministicFillUninitializedMemory();
}

/// On the current device.
Tensor newTensor(
    IntArrayRef size,
    IntArrayRef stride,
    std::optional<ScalarType> dtype,
    std::optional<MemoryFormat> format) {
  const auto options =
      TensorOptions().dtype(dtype_or_default(dtype)).memory_format(format);
  if (C10_UNLIKELY(dtype == kComplexHalf)) {
    TORCH_WARN_ONCE(
        "ComplexHalf support is experimental and many operators don't support "
        "it yet.");
  }
  Tensor made = makeDeviceTensor(
      size, stride, options, c10::openreg::getCurrentOpenRegStream());
  if (C10_UNLIKELY(fillsNewMemory())) {
    fill_empty_deterministic_(made);
  }
  return made;
}

} // namespace

// --- making tensors -----------------------------------------------------------

// docs:begin empty
Tensor empty_memory_format(
    IntArrayRef size,
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory,
    std::optional<MemoryFormat> memory_format) {
  const FactoryGuard guard(layout, device, pin_memory);
  return newTensor(size, {}, dtype, memory_format);
}
// docs:end empty

Tensor empty_strided(
    IntArrayRef size,
    IntArrayRef stride,
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory) {
  const FactoryGuard guard(layout, device, pin_memory);
  TORCH_CHECK(
      size.size() == stride.size(),
      "dimensionality of sizes (",
      size.size(),
      ") must match dimensionality of strides (",
      stride.size(),
      ")");
  return newTensor(size, stride, dtype, std::nullopt);
}

// Zeros that take no memory: autograd uses them for gradients that are nothing
// but zero.
Tensor _efficientzerotensor(
    IntArrayRef size,
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory) {
  class NoMemory final : public c10::Allocator {
    c10::DataPtr allocate(size_t /*nbytes*/) override {
      return getOpenRegDeviceAllocator().allocate(0);
    }
    void copy_data(void* /*dest*/, const void* /*src*/, size_t /*count*/)
        const override {}
  };
  static auto* noMemory = new NoMemory;
  const FactoryGuard guard(layout, device, pin_memory);
  auto zeros = at::detail::empty_generic(
      size,
      noMemory,
      kKeySet.add(DispatchKey::ZeroTensor),
      dtype_or_default(dtype),
      std::nullopt);
  return zeros;
}

// --- looking at them in another way -------------------------------------------

Tensor as_strided(
    const Tensor& self,
    IntArrayRef size,
    IntArrayRef stride,
    std::optional<int64_t> storage_offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, storage_offset);
}

const Tensor& resize_(
    const Tensor& self,
    IntArrayRef size,
    std::optional<MemoryFormat> memory_format) {
  TensorImpl* impl = self.unsafeGetTensorImpl();
  const int64_t itemsize = static_cast<int64_t>(impl->itemsize());
  const size_t before = impl->unsafe_storage().nbytes();
  if (impl->sizes() != size) {
    // Impossible sizes are refused before anything changes.
    const auto needed = at::detail::computeStorageNbytesContiguous(
        size, itemsize, impl->storage_offset());
    if (needed > impl->unsafe_storage().nbytes() &&
        c10::multiply_integers(size) > 0) {
      c10::openreg::resizeStorage(impl->unsafe_storage(), needed);
    }
    impl->set_sizes_contiguous(size);
  }
  if (memory_format) {
    TORCH_CHECK(
        *memory_format != MemoryFormat::Preserve,
        "Unsupported memory format",
        *memory_format);
    impl->empty_tensor_restride(*memory_format);
  }
  if (C10_UNLIKELY(fillsNewMemory())) {
    fill_resize_deterministic_(self, static_cast<int64_t>(before));
  }
  return self;
}

Tensor& set_source_Storage(Tensor& self, Storage source) {
  return at::native::set_(self, std::move(source));
}

Tensor& set_source_Storage_offset(
    Tensor& self,
    Storage source,
    int64_t storage_offset,
    IntArrayRef size,
    IntArrayRef stride) {
  checkSetStorage(self, source, storage_offset, size, stride);
  TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(storage_offset);
  if (stride.data()) {
    impl->set_sizes_and_strides(size, stride);
  } else if (impl->sizes() != size) {
    impl->set_sizes_contiguous(size);
  }
  const size_t needed = at::detail::computeStorageNbytes(
      impl->sizes(), impl->strides(), impl->itemsize(), storage_offset);
  if (impl->numel() > 0 && needed > impl->unsafe_storage().nbytes()) {
    c10::openreg::resizeStorage(impl->unsafe_storage(), needed);
  }
  return self;
}

Tensor& set_source_Tensor(Tensor& self, const Tensor& source) {
  return at::native::set_tensor_(self, source);
}

// docs:begin override
// PyTorch's own answer knows the CPU and the devices it ships with. With this one
// module.to("openreg") keeps its parameters and changes their data, as on CUDA, so
// an optimizer made before goes on working.
bool _has_compatible_shallow_copy_type(const Tensor& self, const Tensor& from) {
  const auto plain = [](const Tensor& tensor) {
    return tensor.layout() == kStrided && !tensor.is_quantized() &&
        (tensor.is_cpu() || isOpenReg(tensor));
  };
  return plain(self) && plain(from);
}
// docs:end override

// --- values -------------------------------------------------------------------

namespace {

// Throws if the dtype cannot hold the number. It must throw here: later there is no
// caller to tell.
void checkFits(const Scalar& value, ScalarType dtype) {
  if (isQIntType(dtype)) {
    return;
  }
  AT_DISPATCH_V2(
      dtype,
      "fill_",
      AT_WRAP([&] { static_cast<void>(value.to<scalar_t>()); }),
      AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX),
      AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
      AT_EXPAND(AT_FLOAT8_TYPES),
      kBool,
      kHalf,
      kBFloat16,
      kComplexHalf);
}

} // namespace

Tensor& fill_Scalar(Tensor& self, const Scalar& value) {
  checkFits(value, self.scalar_type());
  beginOverwrite(self);
  launch(
      "aten::fill_",
      streamOf(self),
      {.writes = {&self}},
      [value](std::span<Tensor> aliases) {
        callCpuKernel<at::_ops::fill__Scalar>(aliases[0], value);
      });
  return self;
}

Tensor& zero_(Tensor& self) {
  if (self.numel() == 0) {
    return self;
  }
  if (!self.is_non_overlapping_and_dense()) {
    return fill_Scalar(self, 0);
  }
  beginOverwrite(self);
  const OpenRegStream stream = streamOf(self);
  const auto list = [&](std::vector<MemoryAccess>& accesses) {
    listAccess(self, /*writes=*/true, accesses);
  };
  OPENREG_CHECK(c10::openreg::submit(
      {"aten::zero_", stream, list}, [&](orStream_t handle) {
        return orMemsetAsync(self.mutable_data_ptr(), 0, self.nbytes(), handle);
      }));
  return self;
}

// Read where a kernel would: one wait, and nothing is launched.
Scalar _local_scalar_dense(const Tensor& self) {
  const OpenRegStream stream = streamOf(self);
  c10::openreg::noteSynchronization(stream);
  TORCH_CHECK(
      self.numel() > 0, "_local_scalar_dense: Empty tensor not supported");
  c10::openreg::checkNotLost(self.storage().data());
  const auto list = [&](std::vector<MemoryAccess>& accesses) {
    listAccess(self, /*writes=*/false, accesses);
  };
  OPENREG_CHECK(c10::openreg::submit(
      {"aten::_local_scalar_dense", stream, list}, &orStreamSynchronize));
  c10::openreg::observe(
      &c10::openreg::RuntimeObserver::onHostWaitForStream, stream.stream());
  const void* element = c10::openreg::kernelAddress(self.const_data_ptr());
  Scalar value;
  AT_DISPATCH_V2(
      self.scalar_type(),
      "_local_scalar_dense_cpu",
      AT_WRAP([&] { value = *static_cast<const scalar_t*>(element); }),
      AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX),
      AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
      AT_EXPAND(AT_FLOAT8_TYPES),
      kBool,
      kHalf,
      kBFloat16,
      kComplexHalf);
  return value;
}

// --- streams ------------------------------------------------------------------

void record_stream(Tensor& self, Stream stream) {
  getOpenRegDeviceAllocator().recordStream(self.storage().data_ptr(), stream);
}

} // namespace at::native::openreg
