// The tensors behind aliases, made once and used again.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <vector>

namespace at::native::openreg {

using c10::StorageImpl;
using c10::TensorImpl;

/// A CPU tensor that can be pointed at one device tensor after another: making a
/// TensorImpl costs more than all the rest of an alias.
class AliasImpl final : public TensorImpl {
 public:
  AliasImpl()
      : TensorImpl(
            c10::DispatchKeySet(c10::DispatchKey::CPU),
            caffe2::TypeMeta::Make<float>(),
            c10::Device(c10::kCPU)) {}

  void bind(const TensorImpl* source, c10::intrusive_ptr<StorageImpl> storage);
  void unbind();

  // The one member that c10 gives no way to set, of any tensor.
  static void setDevice(TensorImpl* tensor, c10::Device device) {
    constexpr auto member = &AliasImpl::device_opt_;
    tensor->*member = device;
  }
};

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

/// Those of a thread.
///
/// Threads: each has its own; an alias that another thread drops goes to that one's.
struct AliasSpares {
  Spares<AliasImpl> aliases;
  Spares<StorageImpl> storages;
};
AliasSpares& aliasSpares();

} // namespace at::native::openreg
