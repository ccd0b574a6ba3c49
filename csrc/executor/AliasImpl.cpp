#include "executor/AliasImpl.h"

#include "executor/OutputMemory.h"

#include <ATen/EmptyTensor.h>

#include <vector>

namespace at::native::openreg {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::Storage;

namespace {

constexpr DispatchKeySet kBits(
    {DispatchKey::Conjugate, DispatchKey::Negative, DispatchKey::ZeroTensor});

DispatchKeySet cpuKeys() {
  static const DispatchKeySet keys =
      at::detail::empty_cpu({0}, kFloat).key_set();
  return keys;
}

} // namespace

AliasImpl::AliasImpl()
    : TensorImpl(
          c10::DispatchKeySet(c10::DispatchKey::CPU),
          caffe2::TypeMeta::Make<float>(),
          c10::Device(c10::kCPU)),
      own_(c10::make_intrusive<StorageImpl>(
          StorageImpl::use_byte_size_t(),
          0,
          c10::DataPtr(nullptr, c10::Device(c10::kCPU)),
          outputAllocator(),
          /*resizable=*/true)) {
  storage_ = Storage(own_);
}

void AliasImpl::bindMetadata(const TensorImpl* source) {
  copy_generic_tensor_metadata(source, this);
  device_opt_ = c10::Device(c10::kCPU);
  // An inference tensor has no keys of autograd, and so its alias has none.
  const bool hasAutograd = source->key_set().has(DispatchKey::ADInplaceOrView);
  key_set_ = (hasAutograd ? cpuKeys() : DispatchKeySet(DispatchKey::CPU)) |
      (source->key_set() & kBits);
}

void AliasImpl::bind(const TensorImpl* source, void* memory) {
  bindMetadata(source);
  own_->set_data_ptr_noswap({memory, c10::Device(c10::kCPU)});
  own_->set_nbytes(source->unsafe_storage().nbytes());
}

void AliasImpl::bind(
    const TensorImpl* source,
    c10::intrusive_ptr<StorageImpl> shared) {
  bindMetadata(source);
  storage_ = Storage(std::move(shared));
}

void AliasImpl::unbind() {
  if (C10_UNLIKELY(unsafe_storage().unsafeGetStorageImpl() != own_.get())) {
    storage_ = Storage(own_);
  }
  if (C10_UNLIKELY(own_->data_ptr().get_context() != nullptr)) {
    own_->set_data_ptr_noswap({nullptr, c10::Device(c10::kCPU)});
  }
  if (C10_UNLIKELY(autograd_meta() != nullptr)) {
    set_autograd_meta(nullptr);
  }
}

// Objects with destructors are slow to reach in thread-local storage of a library,
// a pointer to them is not.
using Spares = std::vector<c10::intrusive_ptr<AliasImpl>>;
static thread_local Spares* knownSpares
    __attribute__((tls_model("initial-exec"))) = nullptr;

static Spares& spares() {
  if (C10_UNLIKELY(!knownSpares)) {
    thread_local Spares owned;
    knownSpares = &owned;
  }
  return *knownSpares;
}

c10::intrusive_ptr<AliasImpl> AliasSpares::take() {
  Spares& aliases = spares();
  if (aliases.empty()) {
    return c10::make_intrusive<AliasImpl>();
  }
  auto alias = std::move(aliases.back());
  aliases.pop_back();
  return alias;
}

void AliasSpares::put(c10::intrusive_ptr<AliasImpl> alias) {
  constexpr size_t kMost = 64;
  if (alias.use_count() != 1) {
    return;
  }
  alias->unbind();
  if (alias->isAlone() && spares().size() < kMost) {
    spares().push_back(std::move(alias));
  }
}

} // namespace at::native::openreg
