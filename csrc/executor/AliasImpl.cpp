#include "executor/AliasImpl.h"

#include <ATen/EmptyTensor.h>

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

void AliasImpl::bind(
    const TensorImpl* source,
    c10::intrusive_ptr<StorageImpl> storage) {
  copy_generic_tensor_metadata(source, this);
  storage_ = Storage(std::move(storage));
  device_opt_ = c10::Device(c10::kCPU);
  // An inference tensor has no keys of autograd, and so its alias has none.
  const bool hasAutograd = source->key_set().has(DispatchKey::ADInplaceOrView);
  key_set_ = (hasAutograd ? cpuKeys() : DispatchKeySet(DispatchKey::CPU)) |
      (source->key_set() & kBits);
}

void AliasImpl::unbind() {
  storage_ = Storage();
  set_autograd_meta(nullptr);
}

// Objects with destructors are slow to reach in thread-local storage of a library,
// a pointer to them is not.
static thread_local AliasSpares* knownSpares
    __attribute__((tls_model("initial-exec"))) = nullptr;

AliasSpares& aliasSpares() {
  if (C10_UNLIKELY(!knownSpares)) {
    thread_local AliasSpares owned;
    knownSpares = &owned;
  }
  return *knownSpares;
}

} // namespace at::native::openreg
