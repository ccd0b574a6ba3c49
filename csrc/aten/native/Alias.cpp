#include "aten/native/Alias.h"

#include "aten/native/Layouts.h"
#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegLostMemory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/TensorImpl.h>

#include <vector>

namespace at::native::openreg {

using c10::DataPtr;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::Storage;
using c10::StorageImpl;
using c10::TensorImpl;
using c10::openreg::getOpenRegDeviceAllocator;
using c10::openreg::kernelAddress;

namespace {

constexpr DispatchKeySet kBits(
    {DispatchKey::Conjugate, DispatchKey::Negative, DispatchKey::ZeroTensor});

DispatchKeySet cpuKeys() {
  static const DispatchKeySet keys =
      at::detail::empty_cpu({0}, kFloat).key_set();
  return keys;
}

} // namespace

/// A CPU tensor that can be pointed at one device tensor after another: making a
/// TensorImpl costs more than all the rest of an alias.
class AliasImpl final : public TensorImpl {
 public:
  AliasImpl()
      : TensorImpl(
            DispatchKeySet(DispatchKey::CPU),
            caffe2::TypeMeta::Make<float>(),
            c10::Device(c10::kCPU)) {}

  void bind(const TensorImpl* source, c10::intrusive_ptr<StorageImpl> storage) {
    copy_generic_tensor_metadata(source, this);
    storage_ = Storage(std::move(storage));
    device_opt_ = c10::Device(c10::kCPU);
    key_set_ = cpuKeys() | (source->key_set() & kBits);
  }

  void unbind() {
    storage_ = Storage();
    set_autograd_meta(nullptr);
  }

  // The one member that c10 gives no way to set, of any tensor.
  static void setDevice(TensorImpl* tensor, c10::Device device) {
    constexpr auto member = &AliasImpl::device_opt_;
    tensor->*member = device;
  }
};

namespace {

/// Objects to use again, per thread.
template <class T>
class Spares {
 public:
  c10::intrusive_ptr<T> take() {
    if (spares_.empty()) {
      return nullptr;
    }
    auto spare = std::move(spares_.back());
    spares_.pop_back();
    return spare;
  }

  /// Keeps an object that nobody else has.
  void put(c10::intrusive_ptr<T> object) {
    constexpr size_t kMost = 64;
    if (object.use_count() == 1 && spares_.size() < kMost) {
      spares_.push_back(std::move(object));
    }
  }

 private:
  std::vector<c10::intrusive_ptr<T>> spares_;
};

struct ThreadSpares {
  Spares<AliasImpl> aliases;
  Spares<StorageImpl> storages;
};

// Objects with destructors are slow to reach in thread-local storage of a library,
// a pointer to them is not.
thread_local ThreadSpares* knownSpares
    __attribute__((tls_model("initial-exec"))) = nullptr;

ThreadSpares& spares() {
  if (C10_UNLIKELY(!knownSpares)) {
    thread_local ThreadSpares owned;
    knownSpares = &owned;
  }
  return *knownSpares;
}

DataPtr kernelView(const StorageImpl* storage) {
  c10::openreg::checkNotLost(storage->data());
  return {kernelAddress(storage->data()), c10::Device(c10::kCPU)};
}

c10::intrusive_ptr<StorageImpl> newAliasStorage(const StorageImpl* original) {
  return c10::make_intrusive<StorageImpl>(
      StorageImpl::use_byte_size_t(),
      original->nbytes(),
      kernelView(original),
      outputAllocator(),
      /*resizable=*/true);
}

Storage retained(StorageImpl* storage) {
  return Storage(
      c10::intrusive_ptr<StorageImpl>::unsafe_reclaim_from_nonowning(storage));
}

// A tensor with the metadata of `like` over a device storage.
Tensor makeTensor(const TensorImpl* like, Storage storage) {
  auto tensor = at::detail::make_tensor<TensorImpl>(
      std::move(storage),
      DispatchKeySet(DispatchKey::PrivateUse1),
      like->dtype());
  TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(
      like->sizes(), like->strides(), like->storage_offset());
  impl->_set_conj(like->is_conj());
  impl->_set_neg(like->is_neg());
  if (like->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return tensor;
}

} // namespace

Tensor aliasForLaunch(const Tensor& tensor) {
  if (!isOpenReg(tensor)) {
    return tensor;
  }
  const TensorImpl* impl = tensor.unsafeGetTensorImpl();
  auto alias = c10::make_intrusive<AliasImpl>();
  alias->bind(
      impl, newAliasStorage(impl->unsafe_storage().unsafeGetStorageImpl()));
  return Tensor(c10::intrusive_ptr<TensorImpl>(std::move(alias)));
}

// --- into the kernel ----------------------------------------------------------

Tensor AliasFrame::alias(const Tensor& tensor) {
  if (!isOpenReg(tensor)) {
    if (tensor.defined() && tensor.dim() == 0) {
      keepNumbersOnHost();
    }
    return tensor;
  }
  TensorImpl* original = tensor.unsafeGetTensorImpl();
  for (const Entry& entry : entries_) {
    if (entry.original == original) {
      return Tensor(entry.alias);
    }
  }
  for (const Entry& entry : layouts_) {
    if (entry.original == original) {
      return Tensor(entry.alias);
    }
  }
  if (C10_UNLIKELY(hasLayout(original))) {
    const Tensor alias = aliasLayout(*this, tensor);
    layouts_.push_back({original, alias.getIntrusivePtr()});
    return alias;
  }
  auto alias = spares().aliases.take();
  if (!alias) {
    alias = c10::make_intrusive<AliasImpl>();
  }
  alias->bind(
      original,
      aliasStorage(original->unsafe_storage().unsafeGetStorageImpl()));
  entries_.push_back({original, alias});
  return Tensor(c10::intrusive_ptr<TensorImpl>(std::move(alias)));
}

const c10::intrusive_ptr<StorageImpl>& AliasFrame::aliasStorage(
    StorageImpl* original) {
  for (const StorageEntry& entry : storages_) {
    if (entry.original == original) {
      return entry.alias;
    }
  }
  auto alias = spares().storages.take();
  if (alias) {
    alias->set_data_ptr_noswap(kernelView(original));
    alias->set_nbytes(original->nbytes());
  } else {
    alias = newAliasStorage(original);
  }
  storages_.push_back({original, std::move(alias)});
  return storages_.back().alias;
}

Storage AliasFrame::aliasStorage(const Storage& original) {
  return Storage(aliasStorage(original.unsafeGetStorageImpl()));
}

AliasFrame::~AliasFrame() {
  for (Entry& entry : entries_) {
    auto alias = c10::intrusive_ptr<AliasImpl>::reclaim(
        static_cast<AliasImpl*>(entry.alias.release()));
    if (alias.use_count() == 1) {
      alias->unbind();
    }
    spares().aliases.put(std::move(alias));
  }
  for (StorageEntry& entry : storages_) {
    if (entry.alias.use_count() == 1) {
      entry.alias->set_data_ptr_noswap(DataPtr());
    }
    spares().storages.put(std::move(entry.alias));
  }
}

// --- out of it ----------------------------------------------------------------

const AliasFrame::Entry* AliasFrame::findAlias(const TensorImpl* alias) const {
  const auto find = [&](const auto& entries) -> const Entry* {
    for (const Entry& entry : entries) {
      if (entry.alias.get() == alias) {
        return &entry;
      }
    }
    return nullptr;
  };
  const Entry* entry = find(entries_);
  return entry ? entry : find(layouts_);
}

StorageImpl* AliasFrame::originalOf(const StorageImpl* alias) const {
  for (const StorageEntry& entry : storages_) {
    if (entry.alias.get() == alias) {
      return entry.original;
    }
  }
  return nullptr;
}

// docs:begin move-to-device
void AliasFrame::moveToDevice(StorageImpl& storage) const {
  auto& allocator = getOpenRegDeviceAllocator();
  DataPtr memory = takeDeviceMemory(
      storage._mutable_data_ptr_no_checks(), stream_.device_index());
  if (!memory) {
    // The device had no memory without waiting, or the kernel brought its own,
    // or there is none: a ZeroTensor has a size only.
    memory = allocator.allocate(storage.data() ? storage.nbytes() : 0, stream_);
    if (memory) {
      OPENREG_CHECK(orMemcpyAsync(
          memory.get(),
          storage.data(),
          storage.nbytes(),
          orMemcpyHostToDevice,
          stream_));
    }
  }
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_allocator(&allocator);
}
// docs:end move-to-device

Tensor AliasFrame::wrap(Tensor result) {
  if (!result.defined() || !result.is_cpu()) {
    return result;
  }
  TensorImpl* impl = result.unsafeGetTensorImpl();
  if (const Entry* entry = findAlias(impl)) {
    return Tensor(c10::intrusive_ptr<TensorImpl>::unsafe_reclaim_from_nonowning(
        entry->original));
  }
  if (C10_UNLIKELY(hasLayout(impl))) {
    return wrapLayout(*this, result);
  }
  StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (StorageImpl* original = originalOf(storage)) {
    return makeTensor(impl, retained(original));
  }
  if (storage->device_type() == c10::kCPU) {
    moveToDevice(*storage);
  }
  if (result.use_count() > 1) {
    return makeTensor(impl, impl->storage()); // the kernel kept its tensor
  }
  impl->_change_backend_component_keys(stream_.device());
  AliasImpl::setDevice(impl, stream_.device());
  return result;
}

Storage AliasFrame::wrapStorage(const Storage& result) {
  if (StorageImpl* original = originalOf(result.unsafeGetStorageImpl())) {
    return retained(original);
  }
  if (result.device_type() == c10::kCPU) {
    moveToDevice(*result.unsafeGetStorageImpl());
  }
  return result;
}

void AliasFrame::finish(const Tensor& output) {
  if (!isOpenReg(output)) {
    return;
  }
  const Tensor changed = alias(output);
  if (C10_UNLIKELY(hasLayout(output.unsafeGetTensorImpl()))) {
    finishLayout(*this, output, changed);
  } else {
    finishStrided(output, changed);
  }
}

void AliasFrame::finishStrided(const Tensor& output, const Tensor& aliased) {
  TensorImpl* original = output.unsafeGetTensorImpl();
  TensorImpl* changed = aliased.unsafeGetTensorImpl();
  StorageImpl* storage = original->unsafe_storage().unsafeGetStorageImpl();
  StorageImpl* changedStorage =
      changed->unsafe_storage().unsafeGetStorageImpl();
  StorageImpl* owner = originalOf(changedStorage);
  if (!owner) {
    // The kernel gave the tensor a new storage.
    moveToDevice(*changedStorage);
    original->set_storage_keep_dtype(changed->storage());
  } else if (owner != storage) {
    original->set_storage_keep_dtype(retained(owner));
  } else if (changedStorage->data() != kernelAddress(storage->data())) {
    // The kernel resized the storage.
    const size_t nbytes = changedStorage->nbytes();
    moveToDevice(*changedStorage);
    storage->set_data_ptr_noswap(
        std::move(changedStorage->_mutable_data_ptr_no_checks()));
    storage->set_nbytes(nbytes);
    changedStorage->set_data_ptr_noswap(kernelView(storage));
    changedStorage->set_allocator(outputAllocator());
  } else if (changedStorage->nbytes() != storage->nbytes()) {
    storage->set_nbytes(changedStorage->nbytes());
  }
  if (changed->sizes() != original->sizes() ||
      changed->strides() != original->strides() ||
      changed->storage_offset() != original->storage_offset()) {
    original->set_sizes_and_strides(
        changed->sizes(), changed->strides(), changed->storage_offset());
  }
  original->_set_conj(changed->is_conj());
  original->_set_neg(changed->is_neg());
}

Tensor AliasFrame::finishPart(const Tensor& part) {
  Tensor original = wrap(part);
  if (findAlias(part.unsafeGetTensorImpl())) {
    finishStrided(original, part);
  }
  return original;
}

} // namespace at::native::openreg
