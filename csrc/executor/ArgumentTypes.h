// Operations on the arguments of each C++ type: the only code for arguments that is
// instantiated once per type.
#pragma once

#include "executor/Argument.h"

#include <ATen/core/Generator.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <array>
#include <bit>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace at::native::openreg {
namespace detail {

/// A view, and what it is a view of. Both may be optional.
template <class Owner, class View>
struct OwnedView {
  explicit OwnedView(Owner made)
      : owner(std::move(made)), view(viewOf(owner)) {}
  // The view must refer to the owner at its new address.
  OwnedView(OwnedView&& other) noexcept : OwnedView(std::move(other.owner)) {}

  static View viewOf(const Owner& owner) {
    if constexpr (requires { owner.has_value(); }) {
      return owner ? View(*owner) : View();
    } else {
      return View(owner);
    }
  }

  Owner owner;
  View view;
};

/// Tensors that somebody else keeps, without a count of their own: a count costs two
/// atomic operations.
struct BorrowedTensors {
  using Traits = c10::MaybeOwnedTraits<Tensor>;

  BorrowedTensors() = default;
  BorrowedTensors(BorrowedTensors&&) noexcept = default;
  BorrowedTensors& operator=(BorrowedTensors&&) = delete;
  ~BorrowedTensors() {
    for (Tensor& tensor : tensors) {
      Traits::destroyBorrow(tensor);
    }
  }
  operator TensorList() const {
    return tensors;
  }

  std::vector<Tensor> tensors;
};

/// The same for one tensor.
struct BorrowedTensor {
  using Traits = c10::MaybeOwnedTraits<Tensor>;

  explicit BorrowedTensor(const Tensor& tensor)
      : view(Traits::createBorrow(tensor)) {}
  BorrowedTensor(BorrowedTensor&& other) noexcept
      : BorrowedTensor(other.view) {}
  ~BorrowedTensor() {
    Traits::destroyBorrow(view);
  }

  Tensor view;
};

template <class T>
struct ArgumentTraits {
  static constexpr auto kKind = std::is_same_v<T, double>
      ? ArgumentType::Kind::Rate
      : ArgumentType::Kind::Plain;
  static void encode(Signature& key, const T& value) {
    if constexpr (std::is_same_v<T, double>) {
      key.push_back(std::bit_cast<int64_t>(value));
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      key.push_back(static_cast<int64_t>(value));
    } else {
      TORCH_INTERNAL_ASSERT(false, "no part of a signature");
    }
  }
};

void encodeTensor(Signature& key, const Tensor& tensor);
void encodeNumber(Signature& key, const Scalar& number);
void encodeText(Signature& key, std::string_view text);

// Tensors are mapped by value; the functions that map lists are in Argument.cpp.
template <>
struct ArgumentTraits<Tensor> {
  static constexpr auto kKind = ArgumentType::Kind::Tensor;
  static void visit(const Tensor& tensor, TensorVisitor visit) {
    if (tensor.defined()) {
      visit(tensor);
    }
  }
  static BorrowedTensor map(const Tensor& tensor, TensorMap map) {
    return BorrowedTensor(*map(tensor));
  }
  static void encode(Signature& key, const Tensor& tensor) {
    encodeTensor(key, tensor);
  }
};

template <>
struct ArgumentTraits<std::optional<Tensor>> {
  static constexpr auto kKind = ArgumentType::Kind::Tensors;
  static void visit(const std::optional<Tensor>& value, TensorVisitor visit) {
    if (value && value->defined()) {
      visit(*value);
    }
  }
  static std::optional<Tensor> map(
      const std::optional<Tensor>& value,
      TensorMap map) {
    return value ? std::optional(*map(*value)) : std::nullopt;
  }
  static void encode(Signature& key, const std::optional<Tensor>& value) {
    encodeTensor(key, value.value_or(Tensor()));
    key.push_back(value.has_value());
  }
};

template <class View>
struct TensorListTraits {
  static constexpr auto kKind = ArgumentType::Kind::Tensors;
  static void visit(const View& list, TensorVisitor visit) {
    for (const Tensor& tensor : list) {
      if (tensor.defined()) {
        visit(tensor);
      }
    }
  }
  static OwnedView<BorrowedTensors, View> map(const View& list, TensorMap map) {
    BorrowedTensors mapped;
    mapped.tensors.reserve(list.size());
    for (const Tensor& tensor : list) {
      mapped.tensors.push_back(
          BorrowedTensors::Traits::createBorrow(*map(tensor)));
    }
    return OwnedView<BorrowedTensors, View>(std::move(mapped));
  }
  static void encode(Signature& key, const View& list) {
    key.push_back(static_cast<int64_t>(list.size()));
    for (const Tensor& tensor : list) {
      encodeTensor(key, tensor);
    }
  }
  static c10::IValue box(const View& list) {
    return std::vector<Tensor>(list.begin(), list.end());
  }
};
template <>
struct ArgumentTraits<TensorList> : TensorListTraits<TensorList> {};
template <>
struct ArgumentTraits<ITensorListRef> : TensorListTraits<ITensorListRef> {};

template <>
struct ArgumentTraits<c10::List<std::optional<Tensor>>> {
  using List = c10::List<std::optional<Tensor>>;
  static constexpr auto kKind = ArgumentType::Kind::Tensors;
  static void visit(const List& list, TensorVisitor visit);
  static List map(const List& list, TensorMap map);
  static void encode(Signature& key, const List& list);
};

// As boxed kernels get them: anything, with or without tensors.
template <>
struct ArgumentTraits<c10::IValue> {
  static constexpr auto kKind = ArgumentType::Kind::Tensors;
  static void visit(const c10::IValue& value, TensorVisitor visit);
  static c10::IValue map(const c10::IValue& value, TensorMap map);
  static void encode(Signature& key, const c10::IValue& value);
  static c10::IValue box(const c10::IValue& value) {
    return value;
  }
};

template <>
struct ArgumentTraits<Scalar> {
  static constexpr auto kKind = ArgumentType::Kind::Number;
  static void encode(Signature& key, const Scalar& number) {
    encodeNumber(key, number);
  }
  static uint64_t variant(const Scalar& number) {
    return static_cast<uint64_t>(number.type()) + 1;
  }
};
template <>
struct ArgumentTraits<std::string_view> {
  static constexpr auto kKind = ArgumentType::Kind::Text;
  static void encode(Signature& key, std::string_view text) {
    encodeText(key, text);
  }
  static uint64_t variant(std::string_view text) {
    return std::hash<std::string_view>()(text);
  }
  static OwnedView<std::string, std::string_view> hold(std::string_view text) {
    return OwnedView<std::string, std::string_view>(std::string(text));
  }
  static c10::IValue box(std::string_view text) {
    return std::string(text);
  }
};
template <>
struct ArgumentTraits<std::optional<Generator>> {
  static constexpr auto kKind = ArgumentType::Kind::Generator;
  static void encode(Signature&, const std::optional<Generator>&) {}
};
template <>
struct ArgumentTraits<c10::SymInt> {
  static constexpr auto kKind = ArgumentType::Kind::Plain;
  static void encode(Signature& key, const c10::SymInt& number) {
    key.push_back(number.guard_int(__FILE__, __LINE__));
  }
};
template <class T>
struct ArgumentTraits<c10::ArrayRef<T>> {
  static constexpr auto kKind = ArgumentType::Kind::Plain;
  static void encode(Signature& key, c10::ArrayRef<T> list) {
    key.push_back(static_cast<int64_t>(list.size()));
    for (const T& item : list) {
      ArgumentTraits<T>::encode(key, item);
    }
  }
  static OwnedView<std::vector<T>, c10::ArrayRef<T>> hold(
      c10::ArrayRef<T> list) {
    return OwnedView<std::vector<T>, c10::ArrayRef<T>>(list.vec());
  }
};
template <class T>
struct ArgumentTraits<c10::OptionalArrayRef<T>> {
  using View = c10::OptionalArrayRef<T>;
  using Owner = std::optional<std::vector<T>>;
  static constexpr auto kKind = ArgumentType::Kind::Plain;
  static void encode(Signature& key, const View& list) {
    key.push_back(list.has_value());
    if (list) {
      ArgumentTraits<c10::ArrayRef<T>>::encode(key, *list);
    }
  }
  static OwnedView<Owner, View> hold(const View& list) {
    return OwnedView<Owner, View>(list ? Owner(list->vec()) : std::nullopt);
  }
};
template <size_t count>
struct ArgumentTraits<std::array<bool, count>> {
  static constexpr auto kKind = ArgumentType::Kind::Plain;
  static void encode(Signature& key, const std::array<bool, count>& list) {
    key.append(list.begin(), list.end());
  }
};
template <class T>
struct ArgumentTraits<std::optional<T>> {
  using Element = ArgumentTraits<T>;
  static constexpr auto kKind = Element::kKind == ArgumentType::Kind::Rate
      ? ArgumentType::Kind::Plain
      : Element::kKind;
  static void encode(Signature& key, const std::optional<T>& value) {
    key.push_back(value.has_value());
    if (value) {
      Element::encode(key, *value);
    }
  }
  static uint64_t variant(const std::optional<T>& value)
    requires requires { &Element::variant; }
  {
    return value ? Element::variant(*value) : 0;
  }
  /// For an optional of a type that is itself a view.
  static auto hold(const std::optional<T>& value)
    requires requires { &Element::hold; }
  {
    using Owner = std::optional<decltype(Element::hold(*value).owner)>;
    return OwnedView<Owner, std::optional<T>>(
        value ? Owner(Element::hold(*value).owner) : std::nullopt);
  }
};

/// The traits of a type as functions that do not name it.
template <class T>
struct ErasedTraits {
  using Traits = ArgumentTraits<T>;
  static constexpr bool kHasTensors = requires { &Traits::map; };

  static const T& of(const void* value) {
    return *static_cast<const T*>(value);
  }
  /// Stores `made` in the slot, and returns the part of it that has type T.
  template <class Made>
  static const void* put(Made made, void* slot) {
    static_assert(sizeof(Made) <= 64);
    auto* placed = ::new (slot) Made(std::move(made));
    if constexpr (requires { placed->view; }) {
      return &placed->view;
    } else {
      return placed;
    }
  }
  static auto held(const T& value) {
    if constexpr (requires { Traits::hold(value); }) {
      return Traits::hold(value);
    } else {
      return value;
    }
  }
  static auto mapped(const T& value, TensorMap map) {
    if constexpr (kHasTensors) {
      return Traits::map(value, map);
    } else {
      return held(value);
    }
  }
  using Slot =
      decltype(mapped(std::declval<const T&>(), std::declval<TensorMap>()));

  static void visit(const void* value, TensorVisitor visitor) {
    if constexpr (kHasTensors) {
      Traits::visit(of(value), visitor);
    }
  }
  static c10::IValue box(const void* value) {
    if constexpr (requires { &Traits::box; }) {
      return Traits::box(of(value));
    } else if constexpr (std::is_constructible_v<c10::IValue, const T&>) {
      return c10::IValue(of(value));
    } else {
      TORCH_INTERNAL_ASSERT(false, "no argument of a boxed call");
    }
  }
  static void encode(Signature& key, const void* value) {
    Traits::encode(key, of(value));
  }
  static uint64_t variant(const void* value) {
    if constexpr (requires { Traits::variant(of(value)); }) {
      return Traits::variant(of(value));
    } else {
      return 0;
    }
  }
  static const void* copy(const void* value, TensorMap map, void* slot) {
    return put(mapped(of(value), map), slot);
  }
  static void destroy(void* slot) {
    static_cast<Slot*>(slot)->~Slot();
  }
};

} // namespace detail

template <class T>
inline constexpr ArgumentType kArgumentType{
    detail::ArgumentTraits<T>::kKind,
    &detail::ErasedTraits<T>::visit,
    &detail::ErasedTraits<T>::box,
    &detail::ErasedTraits<T>::encode,
    &detail::ErasedTraits<T>::variant,
    &detail::ErasedTraits<T>::copy,
    &detail::ErasedTraits<T>::destroy};

template <class T>
Argument argument(const T& value) {
  return {&kArgumentType<T>, &value};
}

} // namespace at::native::openreg
