// What an operator call looks like, apart from the data: the key under which the
// shapes of its outputs are remembered.
#pragma once

#include "aten/native/Arguments.h"

#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include <bit>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace at::native::openreg {

using Signature = c10::SmallVector<int64_t, 64>;

void encode(Signature& key, const Tensor& tensor);
void encode(Signature& key, const Scalar& number);
void encode(Signature& key, std::string_view text);
inline void encode(Signature& key, double number) {
  key.push_back(std::bit_cast<int64_t>(number));
}
inline void encode(Signature& key, const c10::SymInt& number) {
  key.push_back(number.guard_int(__FILE__, __LINE__));
}
template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
void encode(Signature& key, T number) {
  key.push_back(static_cast<int64_t>(number));
}
template <class List>
void encodeAll(Signature& key, const List& list) {
  key.push_back(static_cast<int64_t>(list.size()));
  for (const auto& item : list) {
    encode(key, item);
  }
}
template <class T>
void encode(Signature& key, c10::ArrayRef<T> list) {
  encodeAll(key, list);
}
template <size_t count>
void encode(Signature& key, const std::array<bool, count>& list) {
  encodeAll(key, list);
}
inline void encode(Signature& key, const ITensorListRef& list) {
  key.push_back(static_cast<int64_t>(list.size()));
  for (const Tensor& tensor : list) {
    encode(key, tensor);
  }
}
template <class T>
void encode(Signature& key, const std::optional<T>& value) {
  key.push_back(value.has_value());
  if (value) {
    encode(key, *value);
  }
}
template <class T>
void encode(Signature& key, const c10::OptionalArrayRef<T>& list) {
  key.push_back(list.has_value());
  if (list) {
    encode(key, *list);
  }
}

inline void encode(
    Signature& key,
    const c10::List<std::optional<Tensor>>& list) {
  key.push_back(static_cast<int64_t>(list.size()));
  for (const std::optional<Tensor>& tensor : list) {
    encode(key, tensor);
  }
}
inline void encode(
    Signature& /*key*/,
    const std::optional<Generator>& /*any will do*/) {}

template <class... Args>
Signature signatureOf(const Args&... args) {
  Signature key;
  (encode(key, args), ...);
  return key;
}

/// The outputs that calls were seen to make.
class OutputMemory {
 public:
  /// Remembers the outputs of a call. Outputs that are views of something are not
  /// made anew by every call, so they are not remembered.
  void add(const Signature& key, const std::vector<Tensor>& outputs);

  /// Makes such outputs; std::nullopt if no such call was seen.
  std::optional<std::vector<Tensor>> make(
      const Signature& key,
      c10::Device device);

 private:
  struct Output {
    bool defined;
    std::vector<int64_t> sizes, strides;
    ScalarType dtype;
  };
  struct Hash {
    size_t operator()(const std::vector<int64_t>& key) const;
  };

  std::mutex mutex_;
  std::unordered_map<std::vector<int64_t>, std::vector<Output>, Hash> seen_;
};

} // namespace at::native::openreg
