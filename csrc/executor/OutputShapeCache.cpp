#include "executor/OutputShapeCache.h"

#include <ATen/ops/empty.h>
#include <c10/util/hash.h>

namespace at::native::openreg {

size_t OutputShapeCache::Hash::operator()(
    const std::vector<int64_t>& key) const {
  size_t hash = 0;
  for (const int64_t word : key) {
    hash = c10::hash_combine(hash, static_cast<size_t>(word));
  }
  return hash;
}

void OutputShapeCache::add(
    const Signature& key,
    std::span<const Tensor> outputs,
    std::span<const size_t> earlier) {
  constexpr size_t kMost = 4096; // then a program has no shapes that repeat
  std::vector<Output> metadata;
  for (const Tensor& output : outputs) {
    if (!output.defined()) {
      metadata.push_back({false, {}, {}, ScalarType::Undefined});
      continue;
    }
    if (output.storage_offset() != 0 || output.storage().use_count() > 1 ||
        !output.is_non_overlapping_and_dense()) {
      return;
    }
    metadata.push_back(
        {true,
         output.sizes().vec(),
         output.strides().vec(),
         output.scalar_type(),
         output.storage().nbytes() / output.itemsize()});
  }
  for (size_t place = 0; place < earlier.size(); ++place) {
    metadata[place].earlier = earlier[place];
  }
  const std::lock_guard lock(mutex_);
  if (seen_.size() == kMost) {
    seen_.clear();
  }
  seen_.emplace(std::vector(key.begin(), key.end()), std::move(metadata));
}

// A loss that is reduced lies in memory for as many numbers as there were losses: its
// kernel computes them there. So it does on a GPU.
Tensor OutputShapeCache::madeLike(const Output& output, c10::Device device) {
  Tensor made = at::empty(
      {static_cast<int64_t>(output.numbers)},
      TensorOptions(device).dtype(output.dtype));
  made.unsafeGetTensorImpl()->set_sizes_and_strides(
      output.sizes, output.strides);
  return made;
}

std::optional<CachedOutputs> OutputShapeCache::make(
    const Signature& key,
    c10::Device device) {
  std::vector<Output> metadata;
  {
    const std::lock_guard lock(mutex_);
    const auto found = seen_.find(std::vector(key.begin(), key.end()));
    if (found == seen_.end()) {
      return std::nullopt;
    }
    metadata = found->second;
  }
  CachedOutputs outputs;
  for (const Output& output : metadata) {
    outputs.earlier.push_back(output.earlier);
    outputs.tensors.push_back(
        output.defined ? madeLike(output, device) : Tensor());
  }
  return outputs;
}

} // namespace at::native::openreg
