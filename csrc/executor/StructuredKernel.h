// Structured operators: PyTorch splits them in a meta function, which checks the
// arguments and tells the outputs, and a kernel. That is what queueing needs.
#pragma once

#include "executor/ArgumentTypes.h"
#include "executor/Invocation.h"

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>

#include <array>
#include <span>

namespace at::native::openreg {

/// Functional makes its outputs, InPlace changes its first argument, Out writes to its
/// last arguments.
enum class Form : uint8_t { Functional, InPlace, Out };

// docs:begin structured-run
/// One run of the C++ object that a structured operator is in PyTorch: its meta function,
/// then its kernel, on the same object.
///
/// The calling thread runs the meta function on the device's tensors and makes or resizes
/// the outputs. If the work is small and the stream idle, it runs the kernel at once:
/// - an element-wise operator's iterator, which the meta function built, is pointed at
///   the memory of its operands, without a tensor in between;
/// - any other kernel gets aliases of its arguments and outputs.
/// Otherwise the arguments are kept, and the stream's thread runs both functions on
/// aliases, with outputs that are given.
// docs:end structured-run
class StructuredRun {
 public:
  /// On the calling thread.
  StructuredRun(const Invocation& call, Form form, std::span<Tensor> outputs)
      : call_(&call),
        form_(form),
        arguments_(call.arguments),
        outputs_(outputs) {}
  /// On the stream's thread: arguments and outputs are aliases.
  StructuredRun(ArgumentSpan arguments, std::span<Tensor> outputs)
      : form_(Form::Out), arguments_(arguments), outputs_(outputs) {}

  template <class T>
  T get(size_t place) const {
    return getArgument<T>(arguments_, place);
  }

  // --- for the object ---
  void setOutput(
      int64_t place,
      IntArrayRef sizes,
      IntArrayRef strides,
      const TensorOptions& options,
      bool exactStrides);
  const Tensor& output(int64_t place) const {
    return proxies_[place].defined() ? proxies_[place] : outputs_[place];
  }
  /// Runs the kernel now, if now is the time for it.
  void compute(TensorIteratorBase* iterator, Body kernel);

  // --- for the executor ---
  /// How far it came.
  bool inferred() const {
    return inferred_;
  }
  bool computed() const {
    return computed_;
  }
  /// Whether the CPU's outputs would lie as these do. It casts its inputs to one dtype
  /// before it looks at their strides, a device afterwards; that matters for inputs whose
  /// strides a cast does not keep.
  bool hasStridesOfCpu() const {
    return hasStridesOfCpu_;
  }

 private:
  static constexpr size_t kMostOutputs = 8;

  template <class Use>
  void withAliases(Use use);
  void copyProxies();

  const Invocation* const call_ = nullptr; // nullptr: on the stream's thread
  const Form form_;
  ArgumentSpan arguments_;
  std::span<Tensor> outputs_;
  // What the kernel writes to if an output has other strides than it must have.
  std::array<Tensor, kMostOutputs> proxies_;
  bool hasStridesOfCpu_ = true;
  bool inferred_ = false;
  bool computed_ = false;
};

// docs:begin structured-kernel
/// PyTorch's own kernel class, whose outputs are the run's. Generated code calls
/// `meta()` and then `compute()` with `impl()`.
template <class Native>
class StructuredKernel final : public Native {
 public:
  explicit StructuredKernel(StructuredRun& run) : run_(run) {}

  void set_output_strided(
      int64_t place,
      IntArrayRef sizes,
      IntArrayRef strides,
      TensorOptions options) override {
    setOutput(place, sizes, strides, options, /*exactStrides=*/true);
  }
  void set_output_raw_strided(
      int64_t place,
      IntArrayRef sizes,
      IntArrayRef strides,
      TensorOptions options) override {
    setOutput(place, sizes, strides, options, /*exactStrides=*/false);
  }
  const Tensor& maybe_get_output(int64_t place) override {
    return run_.output(place);
  }

  template <class Kernel>
  void compute(Kernel kernel) {
    TensorIteratorBase* iterator = nullptr;
    if constexpr (kIterates) {
      iterator = this;
    }
    run_.compute(iterator, kernel);
  }
  // docs:end structured-kernel

 private:
  static constexpr bool kIterates =
      std::is_base_of_v<TensorIteratorBase, Native>;

  void setOutput(
      int64_t place,
      IntArrayRef sizes,
      IntArrayRef strides,
      const TensorOptions& options,
      bool exactStrides) {
    run_.setOutput(place, sizes, strides, options, exactStrides);
    if constexpr (kIterates) {
      Native::set_output_raw_strided(place, sizes, strides, options);
    }
  }

  StructuredRun& run_;
};

/// Calls a structured operator. `outputs` are empty in the functional form, which fills
/// them; otherwise they are the tensors that the call changes.
void callStructured(
    OperatorInfo& op,
    Form form,
    ArgumentSpan arguments,
    std::span<Tensor> outputs);

} // namespace at::native::openreg
