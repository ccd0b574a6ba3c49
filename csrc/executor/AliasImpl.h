// The tensors behind aliases, made once and used again.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <vector>

namespace at::native::openreg {

using c10::StorageImpl;
using c10::TensorImpl;

/// A CPU tensor that can be pointed at one device tensor after another: making a
/// TensorImpl costs more than all the rest of an alias. It has a storage of its own.
class AliasImpl final : public TensorImpl {
 public:
  AliasImpl();

  /// Makes it look like `source`, over memory at a kernel address or, if tensors share
  /// a storage, over the storage of another alias.
  void bind(const TensorImpl* source, void* memory);
  void bind(const TensorImpl* source, c10::intrusive_ptr<StorageImpl> shared);
  /// Gives up what a kernel may have left in it.
  void unbind();

  StorageImpl* ownStorage() const {
    return own_.get();
  }
  /// Whether nobody else has the storage of this unbound alias.
  bool isAlone() const {
    return own_.use_count() == 2; // `own_` and `storage_`
  }

  // c10 has no setter for this member.
  static void setDevice(TensorImpl* tensor, c10::Device device) {
    constexpr auto member = &AliasImpl::device_opt_;
    tensor->*member = device;
  }

 private:
  void bindMetadata(const TensorImpl* source);

  const c10::intrusive_ptr<StorageImpl> own_;
};

/// Aliases to use again.
///
/// Threads: each has its own; an alias goes to the thread that drops it.
class AliasSpares {
 public:
  static c10::intrusive_ptr<AliasImpl> take();
  /// Keeps an alias, unless somebody else has it or its storage.
  static void put(c10::intrusive_ptr<AliasImpl> alias);
};

} // namespace at::native::openreg
