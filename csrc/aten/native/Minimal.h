// The operators without which there is no tensor: every backend writes these.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

namespace at::native::openreg {

// --- making tensors ---
Tensor empty_memory_format(
    IntArrayRef size,
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory,
    std::optional<MemoryFormat> memory_format);
Tensor empty_strided(
    IntArrayRef size,
    IntArrayRef stride,
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory);
Tensor _efficientzerotensor(
    IntArrayRef size,
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory);

// --- looking at them in another way; nothing runs on the device ---
Tensor as_strided(
    const Tensor& self,
    IntArrayRef size,
    IntArrayRef stride,
    std::optional<int64_t> storage_offset);
const Tensor& resize_(
    const Tensor& self,
    IntArrayRef size,
    std::optional<MemoryFormat> memory_format);
Tensor& set_source_Storage(Tensor& self, Storage source);
Tensor& set_source_Storage_offset(
    Tensor& self,
    Storage source,
    int64_t storage_offset,
    IntArrayRef size,
    IntArrayRef stride);
Tensor& set_source_Tensor(Tensor& self, const Tensor& source);
bool _has_compatible_shallow_copy_type(const Tensor& self, const Tensor& from);

// --- values ---
Tensor& fill_Scalar(Tensor& self, const Scalar& value);
Tensor& zero_(Tensor& self);
Scalar _local_scalar_dense(const Tensor& self);

// --- streams ---
void record_stream(Tensor& self, Stream stream);

} // namespace at::native::openreg
