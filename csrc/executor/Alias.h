// Openreg tensors as CPU tensors: the border between PyTorch and CPU kernels.
#pragma once

#include "executor/Launch.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <span>
#include <vector>

namespace at::native::openreg {

// docs:begin alias-frame
/// The tensors of one operator call, seen from a CPU kernel.
///
/// alias() gives a CPU tensor over the kernel address of an openreg tensor's
/// memory: same sizes, strides, offset, dtype, and conj, neg and zero bits. The
/// same tensor twice gives the same alias, and tensors that share a storage have
/// aliases that do.
///
/// wrap() turns a result of the kernel into an openreg tensor: an alias into the
/// tensor behind it, a view of an alias into a view of that tensor, and a new
/// tensor into one of the device, in place if its memory is there already. Sparse,
/// quantized and nested tensors keep their layout.
///
/// finish() carries what a kernel did to the metadata of an output argument, such
/// as a resize, over to the tensor itself.
// docs:end alias-frame
///
/// Tensors given to alias() must outlive the frame. wrap() and finish() may wait
/// for the device and raise out-of-memory errors: they run after the kernel.
class AliasFrame {
 public:
  explicit AliasFrame(const OpenRegStream& stream) : stream_(stream) {}
  ~AliasFrame();
  AliasFrame(const AliasFrame&) = delete;
  AliasFrame& operator=(const AliasFrame&) = delete;

  /// The result refers to what the frame keeps until the next call of either function.
  const Tensor& alias(const Tensor& tensor);
  /// The same for a kernel that runs later: a CPU tensor (a number or an index) is
  /// copied, because its owner may change it.
  const Tensor& aliasForLater(const Tensor& tensor);
  Tensor wrap(Tensor result);
  void finish(const Tensor& output);

 private:
  struct Entry {
    c10::TensorImpl* original;
    Tensor alias;
  };
  struct StorageEntry {
    c10::StorageImpl* original;
    c10::StorageImpl* alias; // of an entry, or owned
  };

  c10::StorageImpl* findStorage(const c10::StorageImpl* original) const;
  c10::Storage aliasStorage(c10::StorageImpl* original);
  c10::Storage wrapStorage(const c10::Storage& result);
  Tensor aliasLayout(const Tensor& tensor);
  Tensor wrapLayout(const Tensor& result);
  void finishLayout(const Tensor& output, const Tensor& changed);
  /// If the kernel resized the storage of an output, that storage follows.
  void finishStorage(c10::StorageImpl& original, c10::StorageImpl& changed);
  void finishStrided(const Tensor& output, const Tensor& aliased);
  const Entry* findAlias(const c10::TensorImpl* alias) const;
  c10::StorageImpl* originalOf(const c10::StorageImpl* alias) const;
  void moveToDevice(c10::StorageImpl& storage) const;

  const OpenRegStream stream_;
  c10::SmallVector<Entry, 6> entries_; // strided ones
  std::vector<Entry> layouts_; // all others
  std::vector<Tensor> copies_; // of tensors of the CPU
  c10::SmallVector<StorageEntry, 6> storages_;
  std::vector<c10::Storage> owned_; // of tensors of other layouts
};

/// Makes tensors that a call has just created CPU tensors over the kernel addresses of
/// their memory, for the lifetime of the object.
class [[nodiscard]] OutputsAsCpus {
 public:
  OutputsAsCpus(std::span<const Tensor> outputs, c10::Device device);
  ~OutputsAsCpus();
  OutputsAsCpus(const OutputsAsCpus&) = delete;
  OutputsAsCpus& operator=(const OutputsAsCpus&) = delete;

 private:
  void moveTo(c10::Device device) const;

  const std::span<const Tensor> outputs_;
  const c10::Device device_;
};

} // namespace at::native::openreg
