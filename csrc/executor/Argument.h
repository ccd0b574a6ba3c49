// Operator arguments without their C++ types, so that the executor is compiled once
// and not once per operator.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace at::native::openreg {

using TensorVisitor = c10::function_ref<void(const Tensor&)>;
/// Finds the tensor that replaces the given one, usually its alias. Whoever is asked keeps
/// that tensor for as long as it replaces the other; it may be the given one itself.
using TensorMap = c10::function_ref<const Tensor*(const Tensor&)>;
/// What a call looks like, apart from its data: a key of OutputShapeCache.
using Signature = c10::SmallVector<int64_t, 64>;

/// What can be done with arguments of one C++ type.
struct ArgumentType {
  enum class Kind : uint8_t {
    Tensor, ///< const Tensor& or Tensor&
    Tensors, ///< anything else that may hold tensors
    Number, ///< Scalar, which a kernel may turn into a tensor of the host
    Text, ///< decides, as a dtype does, whether a kernel supports the call
    Rate, ///< double, which never changes the shape of an output
    Generator,
    Plain,
  };
  Kind kind;
  void (*visit)(const void* value, TensorVisitor visit);
  c10::IValue (*box)(const void* value);
  void (*encode)(Signature& key, const void* value);
  /// The part of an argument that decides whether a kernel supports it: dtypes, kinds of
  /// numbers, words.
  uint64_t (*variant)(const void* value);
  /// Makes a copy in `slot`, with other tensors, that outlives the call, and returns
  /// where it is.
  const void* (*copy)(const void* value, TensorMap map, void* slot);
  void (*destroy)(void* slot);
};

/// A reference to an argument; it lives as long as the call.
struct Argument {
  const ArgumentType* type;
  const void* value;

  const Tensor& tensor() const {
    return *static_cast<const Tensor*>(value);
  }
};
using ArgumentSpan = std::span<const Argument>;

/// The argument at `place`, for a parameter that was declared as T.
template <class T>
T getArgument(ArgumentSpan arguments, size_t place) {
  using Plain = std::remove_cvref_t<T>;
  return *static_cast<Plain*>(const_cast<void*>(arguments[place].value));
}

/// Calls `visit(tensor)` for each defined tensor of a call.
void visitTensors(ArgumentSpan arguments, TensorVisitor visit);
void visitTensors(const Argument& argument, TensorVisitor visit);

/// Arguments that were changed for a kernel, or copied for a kernel that runs later.
class ArgumentList {
 public:
  ArgumentList() = default;
  ~ArgumentList();
  ArgumentList(const ArgumentList&) = delete;
  ArgumentList& operator=(const ArgumentList&) = delete;

  /// The arguments with other tensors. `arguments` must outlive the list.
  void map(ArgumentSpan arguments, TensorMap map);
  /// Copies of the arguments with other tensors.
  void hold(ArgumentSpan arguments, TensorMap map);
  void replace(size_t place, const Argument& argument) {
    arguments_[place] = argument;
  }

  operator ArgumentSpan() const {
    return {arguments_.data(), arguments_.size()};
  }

 private:
  struct Slot {
    alignas(std::max_align_t) std::byte bytes[64];
    const ArgumentType* type; // nullptr: nothing is in there
  };
  template <class How>
  void convert(ArgumentSpan arguments, How how);

  c10::SmallVector<Argument, 8> arguments_;
  std::unique_ptr<Slot[]> many_;
  std::array<Slot, 8> few_;
  Slot* slots_ = nullptr;
  size_t used_ = 0;
};

/// All arguments of a call as a stack, as boxed kernels take them.
std::vector<c10::IValue> boxArguments(ArgumentSpan arguments);

} // namespace at::native::openreg
