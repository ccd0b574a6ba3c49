// Openreg tensors as CPU tensors: the border between PyTorch and CPU kernels.
#pragma once

#include "aten/native/OutputAllocator.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <vector>

namespace at::native::openreg {

inline bool isOpenReg(const TensorBase& tensor) {
  return tensor.defined() && tensor.is_privateuseone();
}

/// A CPU tensor over the same memory, for a kernel that runs later. It owns
/// nothing: as on a GPU, memory freed meanwhile is handed out again to work of
/// the same stream only, which comes after. Tensors of the CPU, and undefined
/// ones, come back as they are.
Tensor aliasForLaunch(const Tensor& tensor);

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

  Tensor alias(const Tensor& tensor);
  Tensor wrap(Tensor result);
  void finish(const Tensor& output);

  // For what a tensor of another layout is made of (see Layouts.h).
  c10::Device device() const {
    return stream_.device();
  }
  c10::Storage aliasStorage(const c10::Storage& original);
  c10::Storage wrapStorage(const c10::Storage& result);
  void finishStrided(const Tensor& output, const Tensor& aliased);
  /// finish() and wrap() in one: `part` may be an alias that the kernel changed.
  Tensor finishPart(const Tensor& part);

 private:
  struct Entry {
    c10::TensorImpl* original;
    c10::intrusive_ptr<c10::TensorImpl> alias;
  };
  struct StorageEntry {
    c10::StorageImpl* original;
    c10::intrusive_ptr<c10::StorageImpl> alias;
  };

  const c10::intrusive_ptr<c10::StorageImpl>& aliasStorage(
      c10::StorageImpl* original);
  const Entry* findAlias(const c10::TensorImpl* alias) const;
  c10::StorageImpl* originalOf(const c10::StorageImpl* alias) const;
  void moveToDevice(c10::StorageImpl& storage) const;

  const OpenRegStream stream_;
  c10::SmallVector<Entry, 6> entries_; // strided ones
  std::vector<Entry> layouts_; // all others
  c10::SmallVector<StorageEntry, 6> storages_;
};

} // namespace at::native::openreg
