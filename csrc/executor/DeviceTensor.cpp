#include "executor/DeviceTensor.h"

#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegDeviceType.h"
#include "runtime/OpenRegStorage.h"

#include <ATen/EmptyTensor.h>

namespace at::native::openreg {

// docs:begin device-tensor
Tensor makeDeviceTensor(
    IntArrayRef sizes,
    IntArrayRef strides,
    const TensorOptions& options,
    const c10::openreg::OpenRegStream& stream) {
  at::detail::check_size_nonnegative(sizes);
  const auto dtype = c10::scalarTypeToTypeMeta(options.dtype().toScalarType());
  const size_t bytes = strides.empty()
      ? at::detail::computeStorageNbytesContiguous(sizes, dtype.itemsize())
      : at::detail::computeStorageNbytes(sizes, strides, dtype.itemsize());
  auto& allocator = c10::openreg::getOpenRegDeviceAllocator();
  c10::Storage storage(c10::make_intrusive<c10::openreg::OpenRegStorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      bytes,
      allocator.allocate(bytes, stream),
      &allocator,
      /*resizable=*/true));
  // docs:end device-tensor
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::openreg::kKeySet, dtype);
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!strides.empty()) {
    impl->set_sizes_and_strides(sizes, strides);
    return tensor;
  }
  if (sizes.size() != 1 || sizes[0] != 0) {
    impl->set_sizes_contiguous(sizes);
  }
  const auto format = options.memory_format_opt();
  if (format && *format != MemoryFormat::Contiguous) {
    impl->empty_tensor_restride(*format);
  }
  return tensor;
}

} // namespace at::native::openreg
