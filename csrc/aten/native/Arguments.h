// How each kind of operator argument crosses to a CPU kernel.
#pragma once

#include "aten/native/Alias.h"
#include "runtime/OpenRegGenerator.h"

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <c10/core/DispatchKeySet.h>

#include <optional>
#include <vector>

namespace at::native::openreg {

// --- the tensors of an argument -----------------------------------------------

/// Calls `visit(tensor)` for each defined tensor of an argument.
template <class Visit>
void visitTensors(const Tensor& tensor, Visit&& visit) {
  if (tensor.defined()) {
    visit(tensor);
  }
}
template <class Visit>
void visitTensors(const std::optional<Tensor>& tensor, Visit&& visit) {
  if (tensor && tensor->defined()) {
    visit(*tensor);
  }
}
template <class Visit>
void visitTensors(const ITensorListRef& tensors, Visit&& visit) {
  for (const Tensor& tensor : tensors) {
    visitTensors(tensor, visit);
  }
}
template <class Visit>
void visitTensors(TensorList tensors, Visit&& visit) {
  for (const Tensor& tensor : tensors) {
    visitTensors(tensor, visit);
  }
}
template <class Visit>
void visitTensors(const c10::List<std::optional<Tensor>>& list, Visit&& visit) {
  for (const std::optional<Tensor>& tensor : list) {
    visitTensors(tensor, visit);
  }
}
template <class T, class Visit>
void visitTensors(const T& /*no tensor*/, Visit&& /*visit*/) {}

// --- for a kernel that runs now -----------------------------------------------

/// `argument` as the CPU kernel gets it. Aliases belong to the frame.
template <class T>
const T& toCpu(AliasFrame& /*frame*/, const T& argument) {
  return argument;
}
inline Tensor toCpu(AliasFrame& frame, const Tensor& tensor) {
  return frame.alias(tensor);
}
inline const Scalar& toCpu(AliasFrame& /*frame*/, const Scalar& number) {
  keepNumbersOnHost();
  return number;
}
inline std::optional<Tensor> toCpu(
    AliasFrame& frame,
    const std::optional<Tensor>& tensor) {
  return tensor ? std::optional(frame.alias(*tensor)) : std::nullopt;
}
inline std::vector<Tensor> toCpu(
    AliasFrame& frame,
    const ITensorListRef& tensors) {
  std::vector<Tensor> aliases;
  aliases.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    aliases.push_back(frame.alias(tensor));
  }
  return aliases;
}
inline std::vector<Tensor> toCpu(AliasFrame& frame, TensorList tensors) {
  return toCpu(frame, ITensorListRef(tensors));
}
inline c10::List<std::optional<Tensor>> toCpu(
    AliasFrame& frame,
    const c10::List<std::optional<Tensor>>& tensors) {
  c10::List<std::optional<Tensor>> aliases;
  aliases.reserve(tensors.size());
  for (const std::optional<Tensor>& tensor : tensors) {
    aliases.push_back(toCpu(frame, tensor));
  }
  return aliases;
}

/// Lets an alias stand where a kernel wants `Tensor&`.
struct Lvalue {
  Tensor tensor;
  operator Tensor&() {
    return tensor;
  }
};

/// A device's generator, lent to a CPU kernel that it is an argument of.
struct Lent {
  c10::openreg::CpuDraw draw;
  operator std::optional<Generator>() const {
    return draw.generator();
  }
};
inline Lent lend(const std::optional<Generator>& generator) {
  return {c10::openreg::CpuDraw(*generator)};
}

/// Replaces a generator argument by the one to draw from in `stream`; to be done
/// before the call is run or queued.
inline void chooseGenerator(
    const OpenRegStream& stream,
    std::optional<Generator>& argument) {
  argument = c10::openreg::generatorFor(argument, stream);
}
template <class T>
void chooseGenerator(const OpenRegStream& /*stream*/, T& /*no generator*/) {}

/// toCpu() for an argument of the declared type T.
template <class T, class Given>
decltype(auto) passTo(AliasFrame& frame, const Given& argument) {
  if constexpr (std::is_same_v<T, Tensor&>) {
    return Lvalue{frame.alias(argument)};
  } else if constexpr (std::is_same_v<T, std::optional<Generator>>) {
    return lend(argument);
  } else {
    return toCpu(frame, argument);
  }
}

// --- back again ---------------------------------------------------------------

inline Tensor toDevice(AliasFrame& frame, Tensor&& result) {
  return frame.wrap(std::move(result));
}
inline std::vector<Tensor> toDevice(
    AliasFrame& frame,
    std::vector<Tensor>&& results) {
  for (Tensor& result : results) {
    result = frame.wrap(std::move(result));
  }
  return std::move(results);
}
template <class... T>
std::tuple<T...> toDevice(AliasFrame& frame, std::tuple<T...>&& results) {
  return std::apply(
      [&](T&... result) {
        return std::tuple<T...>(toDevice(frame, std::move(result))...);
      },
      results);
}
template <class T>
  requires std::is_arithmetic_v<T>
T toDevice(AliasFrame& /*frame*/, T&& result) {
  return result;
}

} // namespace at::native::openreg
