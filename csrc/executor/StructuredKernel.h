// Structured operators: PyTorch splits them into a meta function, which checks the
// arguments and describes the outputs, and a kernel. That is what queueing needs.
#pragma once

#include "executor/ArgumentTypes.h"
#include "executor/Invocation.h"

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>

namespace at::native::openreg {

/// Functional makes its outputs, InPlace changes its first argument, Out writes to its
/// last arguments.
enum class Form : uint8_t { Functional, InPlace, Out };

// docs:begin structured-run
/// One run of a structured operator, which in PyTorch is a C++ object: first its meta
/// function, then its kernel, on the same object.
///
/// The calling thread runs the meta function on the device's tensors and makes or resizes
/// the outputs. If the work is small and the stream is idle, it runs the kernel at once:
/// - For an element-wise operator, the iterator that the meta function built is pointed
///   at the memory of its operands. No alias is needed.
/// - Any other kernel gets aliases, and outputs that count as CPU tensors until it has
///   run.
/// Otherwise the arguments are kept, and the stream's thread runs both functions on
/// aliases, with the outputs that exist already. A graph keeps the object after its meta
/// function has run on aliases, so a replay runs only the kernel.
// docs:end structured-run
class StructuredRun {
 public:
  /// On the calling thread.
  StructuredRun(const Invocation& call, Form form, std::span<Tensor> outputs)
      : call_(&call),
        form_(form),
        arguments_(call.arguments),
        outputs_(outputs) {}
  /// On the stream's thread: arguments and outputs are aliases. With `keeps` the kernel
  /// is not run but kept, together with its object, for repeat().
  StructuredRun(
      ArgumentSpan arguments,
      std::span<Tensor> outputs,
      bool keeps = false)
      : form_(Form::Out),
        keeps_(keeps),
        arguments_(arguments),
        outputs_(outputs) {}

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
    return C10_UNLIKELY(hasProxy(place)) ? (*proxies_)[place] : outputs_[place];
  }
  /// Runs the kernel now, if now is the time for it.
  void compute(TensorIteratorBase* iterator, Body kernel);

  /// The object of an operator, on which its meta function has run, and its kernel.
  using Object = std::unique_ptr<at::impl::MetaBase>;
  using Kernel = void (*)(at::impl::MetaBase& object, StructuredRun& run);
  bool keeps() const {
    return keeps_;
  }
  void keep(Object object, Kernel kernel) {
    object_ = std::move(object);
    kernel_ = kernel;
  }

  // --- for the executor ---
  /// How far it came.
  bool inferred() const {
    return inferred_;
  }
  bool computed() const {
    return computed_;
  }
  /// Whether the CPU casts operands while it builds its iterator: then the object
  /// holds copies, and is good for one run.
  bool casts() const {
    return casts_;
  }
  /// Runs the kernel that was kept.
  void repeat() {
    kernel_(*object_, *this);
    copyProxies();
  }
  /// Whether the CPU's outputs would have the same strides. The CPU casts its inputs to
  /// one dtype before it looks at their strides, a device afterwards; that matters if a
  /// cast changes strides.
  bool hasStridesOfCpu() const {
    return hasStridesOfCpu_;
  }

 private:
  static constexpr size_t kMostOutputs = 8;

  bool hasProxy(size_t place) const {
    return proxies_ && (*proxies_)[place].defined();
  }
  void runOnAliases(TensorIteratorBase* iterator, Body kernel);
  void copyProxies();

  const Invocation* const call_ = nullptr; // nullptr: arguments are aliases
  const Form form_;
  const bool keeps_ = false;
  ArgumentSpan arguments_;
  std::span<Tensor> outputs_;
  // What the kernel writes to if an output has other strides than it must have.
  std::unique_ptr<std::array<Tensor, kMostOutputs>> proxies_;
  bool hasStridesOfCpu_ = true;
  bool inferred_ = false;
  bool computed_ = false;
  bool casts_ = false;
  Object object_; // that was kept
  Kernel kernel_ = nullptr;
};

// docs:begin structured-kernel
/// PyTorch's own kernel class, with the outputs of a run. Generated code derives from
/// this class: `infer()` calls `meta()` and `compute()` calls `impl()`, with the arguments
/// of the run.
template <class Native>
class StructuredKernel : public Native {
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

  // docs:end structured-kernel

  TensorIteratorBase* iterator() {
    if constexpr (kIterates) {
      return this;
    } else {
      return nullptr;
    }
  }

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

/// Runs an operator whose object is of class `Object`, derived from StructuredKernel.
template <class Object>
void runObject(StructuredRun& run) {
  if (C10_UNLIKELY(run.keeps())) {
    auto object = std::make_unique<Object>(run);
    object->infer(run);
    run.keep(
        std::move(object), [](at::impl::MetaBase& kept, StructuredRun& again) {
          static_cast<Object&>(kept).compute(again);
        });
    return;
  }
  Object object(run);
  object.infer(run);
  run.compute(object.iterator(), [&] { object.compute(run); });
}

/// The caller's tensors as outputs, without references of their own: taking and
/// dropping a second reference to a tensor that Python owns needs the GIL.
template <size_t count>
class BorrowedOutputs {
 public:
  template <class... Given>
  explicit BorrowedOutputs(const Given&... tensors)
      : tensors_{Traits::createBorrow(tensors)...} {}
  ~BorrowedOutputs() {
    std::ranges::for_each(tensors_, &Traits::destroyBorrow);
  }
  BorrowedOutputs(const BorrowedOutputs&) = delete;
  BorrowedOutputs& operator=(const BorrowedOutputs&) = delete;

  operator std::span<Tensor>() {
    return tensors_;
  }

 private:
  using Traits = c10::MaybeOwnedTraits<Tensor>;

  std::array<Tensor, count> tensors_;
};
template <class... Given>
BorrowedOutputs(const Given&...) -> BorrowedOutputs<sizeof...(Given)>;

/// Calls a structured operator. `outputs` are empty in the functional form, which fills
/// them; otherwise they are the tensors that the call changes.
void callStructured(
    OperatorInfo& op,
    Form form,
    ArgumentSpan arguments,
    std::span<Tensor> outputs);

} // namespace at::native::openreg
