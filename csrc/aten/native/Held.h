// How operator arguments are kept for a kernel that runs later.
#pragma once

#include "aten/native/Arguments.h"

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <optional>
#include <string>
#include <vector>

namespace at::native::openreg {

// hold() copies an argument, and tensors become aliases; pass() gives what was
// held in the form the kernel wants. A tensor of the CPU, a number or an index, is
// copied, for its owner may change it.

Tensor hold(const Tensor& tensor);
inline std::optional<Tensor> hold(const std::optional<Tensor>& tensor) {
  return tensor ? std::optional(hold(*tensor)) : std::nullopt;
}
inline std::vector<Tensor> hold(const ITensorListRef& tensors) {
  std::vector<Tensor> held;
  held.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    held.push_back(hold(tensor));
  }
  return held;
}
inline std::vector<Tensor> hold(TensorList tensors) {
  return hold(ITensorListRef(tensors));
}
inline c10::List<std::optional<Tensor>> hold(
    const c10::List<std::optional<Tensor>>& tensors) {
  c10::List<std::optional<Tensor>> held;
  for (const std::optional<Tensor>& tensor : tensors) {
    held.push_back(hold(tensor));
  }
  return held;
}
template <class T>
std::vector<T> hold(c10::ArrayRef<T> values) {
  return values.vec();
}
template <class T>
std::optional<std::vector<T>> hold(const c10::OptionalArrayRef<T>& values) {
  return values ? std::optional(values->vec()) : std::nullopt;
}
template <class T>
std::optional<std::vector<T>> hold(
    const std::optional<c10::ArrayRef<T>>& values) {
  return values ? std::optional(values->vec()) : std::nullopt;
}
inline std::string hold(std::string_view text) {
  return std::string(text);
}
inline std::optional<std::string> hold(
    const std::optional<std::string_view>& text) {
  return text ? std::optional(std::string(*text)) : std::nullopt;
}
template <class T>
T hold(const T& value) {
  return value;
}

template <class Held>
Held& pass(Held& held) {
  return held;
}
inline Lent pass(std::optional<Generator>& held) {
  return lend(held);
}
template <class T>
std::optional<c10::ArrayRef<T>> pass(std::optional<std::vector<T>>& held) {
  return held ? std::optional(c10::ArrayRef<T>(*held)) : std::nullopt;
}
inline std::optional<std::string_view> pass(std::optional<std::string>& held) {
  return held ? std::optional(std::string_view(*held)) : std::nullopt;
}

} // namespace at::native::openreg
