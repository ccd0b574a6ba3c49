#include "executor/Alias.h"

#include "executor/AliasImpl.h"
#include "executor/Layouts.h"
#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegLostMemory.h"
#include "runtime/OpenRegObserver.h"

#include <ATen/EmptyTensor.h>

#include <cstring>

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

void* kernelMemory(const StorageImpl* storage) {
  c10::openreg::checkNotLost(storage->data());
  return kernelAddress(storage->data());
}

DataPtr kernelView(const StorageImpl* storage) {
  return {kernelMemory(storage), c10::Device(c10::kCPU)};
}

c10::intrusive_ptr<StorageImpl> retained(StorageImpl* storage) {
  return c10::intrusive_ptr<StorageImpl>::unsafe_reclaim_from_nonowning(
      storage);
}

// A number needs no operator, which profiles would show.
Tensor copyOf(const Tensor& tensor) {
  if (tensor.dim() != 0 || tensor.is_conj() || tensor.is_neg() ||
      tensor._is_zerotensor()) {
    return tensor.clone();
  }
  Tensor copy = at::detail::empty_cpu({}, tensor.scalar_type());
  std::memcpy(
      copy.mutable_data_ptr(), tensor.const_data_ptr(), tensor.itemsize());
  return copy;
}

// A tensor with the metadata of `like` over a device storage.
Tensor makeTensor(const TensorImpl* like, Storage storage) {
  auto tensor = at::detail::make_tensor<TensorImpl>(
      std::move(storage), c10::openreg::kKeySet, like->dtype());
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

// --- into the kernel ----------------------------------------------------------

const Tensor& AliasFrame::alias(const Tensor& tensor) {
  if (!isOpenReg(tensor)) {
    return tensor;
  }
  TensorImpl* original = tensor.unsafeGetTensorImpl();
  for (const Entry& entry : entries_) {
    if (entry.original == original) {
      return entry.alias;
    }
  }
  for (const Entry& entry : layouts_) {
    if (entry.original == original) {
      return entry.alias;
    }
  }
  if (C10_UNLIKELY(hasLayout(original))) {
    Tensor alias = aliasLayout(tensor);
    layouts_.push_back({original, std::move(alias)});
    return layouts_.back().alias;
  }
  StorageImpl* storage = original->unsafe_storage().unsafeGetStorageImpl();
  StorageImpl* shared = findStorage(storage);
  void* memory = shared ? nullptr : kernelMemory(storage);
  auto alias = AliasSpares::take();
  if (C10_UNLIKELY(shared)) {
    alias->bind(original, retained(shared));
  } else {
    alias->bind(original, memory);
    storages_.push_back({storage, alias->ownStorage()});
  }
  entries_.push_back(
      {original, Tensor(c10::intrusive_ptr<TensorImpl>(std::move(alias)))});
  return entries_.back().alias;
}

const Tensor& AliasFrame::aliasForLater(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cpu()) {
    return alias(tensor);
  }
  Tensor& copy = copies_.emplace_back(copyOf(tensor));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    copy.unsafeGetTensorImpl()->set_wrapped_number(true); // clone() drops it
  }
  return copy;
}

StorageImpl* AliasFrame::findStorage(const StorageImpl* original) const {
  for (const StorageEntry& entry : storages_) {
    if (entry.original == original) {
      return entry.alias;
    }
  }
  return nullptr;
}

Storage AliasFrame::aliasStorage(StorageImpl* original) {
  if (StorageImpl* found = findStorage(original)) {
    return Storage(retained(found));
  }
  owned_.emplace_back(
      Storage::use_byte_size_t(),
      original->nbytes(),
      kernelView(original),
      outputAllocator(),
      /*resizable=*/true);
  storages_.push_back({original, owned_.back().unsafeGetStorageImpl()});
  return owned_.back();
}

AliasFrame::~AliasFrame() {
  // The last one first: it may use the storage of another.
  while (!entries_.empty()) {
    AliasSpares::put(
        c10::intrusive_ptr<AliasImpl>::reclaim(static_cast<AliasImpl*>(
            entries_.back().alias.unsafeReleaseTensorImpl())));
    entries_.pop_back();
  }
}

// --- out of it ----------------------------------------------------------------

const AliasFrame::Entry* AliasFrame::findAlias(const TensorImpl* alias) const {
  const auto find = [&](const auto& entries) -> const Entry* {
    for (const Entry& entry : entries) {
      if (entry.alias.unsafeGetTensorImpl() == alias) {
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
    if (entry.alias == alias) {
      return entry.original;
    }
  }
  return nullptr;
}

// docs:begin move-to-device
void AliasFrame::moveToDevice(StorageImpl& storage) const {
  auto& allocator = getOpenRegDeviceAllocator();
  DataPtr& made = storage._mutable_data_ptr_no_checks();
  DataPtr memory;
  if (isSourceMemory(made)) {
    memory = allocator.adopt(
        c10::openreg::deviceAddress(made.release_context()),
        stream_.device_index());
    c10::openreg::observe(
        &c10::openreg::RuntimeObserver::onResult, memory.get());
  } else {
    // The device had no memory without waiting, or the kernel brought its own,
    // or there is none: a ZeroTensor has a size only.
    memory = allocator.allocate(storage.data() ? storage.nbytes() : 0, stream_);
    if (memory) {
      c10::openreg::submitCopy(
          memory.get(),
          storage.data(),
          storage.nbytes(),
          orMemcpyHostToDevice,
          stream_);
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
    return wrapLayout(result);
  }
  StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (StorageImpl* original = originalOf(storage)) {
    return makeTensor(impl, Storage(retained(original)));
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
    return Storage(retained(original));
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
    finishLayout(output, changed);
  } else {
    finishStrided(output, changed);
  }
}

// --- tensors of other layouts ---------------------------------------------------

Tensor AliasFrame::aliasLayout(const Tensor& tensor) {
  return crossLayout(
      tensor,
      {c10::kCPU,
       [this](const Tensor& part) { return alias(part); },
       [this](const Storage& storage) {
         return aliasStorage(storage.unsafeGetStorageImpl());
       }});
}

Tensor AliasFrame::wrapLayout(const Tensor& result) {
  return crossLayout(
      result,
      {stream_.device(),
       [this](const Tensor& part) { return wrap(part); },
       [this](const Storage& storage) { return wrapStorage(storage); }});
}

// The kernel may have changed the parts of an output, or given it others.
void AliasFrame::finishLayout(const Tensor& output, const Tensor& changed) {
  const auto finishPart = [this](const Tensor& part) {
    // It may have resized the memory of a part by a view of it.
    StorageImpl* storage = part.storage().unsafeGetStorageImpl();
    if (StorageImpl* owner = originalOf(storage)) {
      finishStorage(*owner, *storage);
    }
    Tensor original = wrap(part);
    if (findAlias(part.unsafeGetTensorImpl())) {
      finishStrided(original, part);
    }
    return original;
  };
  const Tensor result = crossLayout(
      changed, {stream_.device(), finishPart, [this](const Storage& storage) {
                  return wrapStorage(storage);
                }});
  if (output.is_quantized()) {
    finishStrided(output, changed);
  }
  setLayout(output, result);
}

// --- outputs that a call has just made ---------------------------------------------

OutputsAsCpus::OutputsAsCpus(
    std::span<const Tensor> outputs,
    c10::Device device)
    : outputs_(outputs), device_(device) {
  moveTo(c10::kCPU);
}

OutputsAsCpus::~OutputsAsCpus() {
  moveTo(device_);
}

// The context of device memory is its address, wherever the pointer points to.
void OutputsAsCpus::moveTo(c10::Device device) const {
  for (const Tensor& output : outputs_) {
    if (!output.defined()) {
      continue;
    }
    TensorImpl* tensor = output.unsafeGetTensorImpl();
    DataPtr& memory = tensor->unsafe_storage()
                          .unsafeGetStorageImpl()
                          ->_mutable_data_ptr_no_checks();
    const auto deleter = memory.get_deleter();
    void* address = memory.release_context();
    memory = DataPtr(
        device.is_cpu() ? kernelAddress(address) : address,
        address,
        deleter,
        device);
    tensor->_change_backend_component_keys(device);
    AliasImpl::setDevice(tensor, device);
  }
}

// --- strided outputs --------------------------------------------------------------

void AliasFrame::finishStorage(StorageImpl& original, StorageImpl& changed) {
  const size_t nbytes = changed.nbytes();
  if (changed.data() != kernelAddress(original.data())) {
    moveToDevice(changed);
    original.set_data_ptr_noswap(
        std::move(changed._mutable_data_ptr_no_checks()));
    changed.set_data_ptr_noswap(kernelView(&original));
    changed.set_allocator(outputAllocator());
  }
  if (nbytes != original.nbytes()) {
    original.set_nbytes(nbytes);
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
    original->set_storage_keep_dtype(Storage(retained(owner)));
  } else {
    finishStorage(*storage, *changedStorage);
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

} // namespace at::native::openreg
