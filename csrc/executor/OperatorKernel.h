// Typed kernels of operators that are not structured.
#pragma once

#include "executor/ArgumentTypes.h"
#include "executor/OperatorCall.h"
#include "executor/RemoteKernel.h"

#include <tuple>
#include <utility>

namespace at::native::openreg {

/// An operator of ours that calls CPU kernels by itself.
template <class Op>
concept CallsKernels = requires { Op::callsKernels; };

// docs:begin operator-kernel
/// The kernel of operator `Op` for the device: its CPU kernel, called by the executor.
/// The shim hands over what it is given; everything else is compiled once.
template <class Op, OutputSource source, class Signature = typename Op::schema>
struct OperatorKernel;

template <class Op, OutputSource source, class Result, class... Args>
struct OperatorKernel<Op, source, Result(Args...)> {
  static Result call(Args... args) {
    const Argument arguments[] = {argument<std::remove_cvref_t<Args>>(args)...};
    Results results = callOperator(info(), arguments);
    return unpack(results, args...);
  }

  static void run(KernelRun& run) {
    runOn(run, std::index_sequence_for<Args...>());
  }
  // docs:end operator-kernel

  /// The CPU's kernel alone, on aliases, wherever kernels run.
  static Result callOnCpu(Args... args) {
    if (C10_LIKELY(!kernelsRunElsewhere())) {
      return Op::redispatch(kCpuKernel, std::forward<Args>(args)...);
    }
    const Argument arguments[] = {argument<std::remove_cvref_t<Args>>(args)...};
    KernelRun run{info(), arguments};
    runKernel(nullptr, run);
    return unpack(run.results, args...);
  }

  static OperatorInfo& info() {
    static auto* info = new OperatorInfo(
        Op::name, Op::overload_name, source, &run, CallsKernels<Op>);
    return *info;
  }

 private:
  template <class T>
  struct AreReferences : std::is_reference<T> {};
  template <class... T>
  struct AreReferences<std::tuple<T...>>
      : std::bool_constant<(std::is_reference_v<T> && ...)> {};
  static constexpr bool kReturnsArguments = AreReferences<Result>::value;

  template <size_t... places>
  static void runOn(KernelRun& run, std::index_sequence<places...>) {
    const auto call = [&]() -> Result {
      return Op::redispatch(kCpuKernel, run.get<Args>(places)...);
    };
    if constexpr (std::is_void_v<Result> || kReturnsArguments) {
      call();
    } else if constexpr (std::is_same_v<Result, Tensor>) {
      run.results.emplace_back(call());
    } else {
      std::apply(
          [&](auto&&... result) {
            (run.results.emplace_back(std::move(result)), ...);
          },
          call());
    }
  }

  template <class... Given>
  static Result unpack(Results& results, Given&... args) {
    if constexpr (kReturnsArguments) {
      return asResult(outputsAmong(args...));
    } else if constexpr (std::is_same_v<Result, Tensor>) {
      return std::move(results[0]).toTensor();
    } else if constexpr (!std::is_void_v<Result>) {
      return asTuple(
          results, std::make_index_sequence<std::tuple_size_v<Result>>());
    }
  }

  template <size_t... places>
  static Result asTuple(Results& results, std::index_sequence<places...>) {
    return Result{std::move(results[places]).toTensor()...};
  }

  /// The arguments that the operator returns.
  template <class... Given>
  static auto outputsAmong(Given&... args) {
    return std::tuple_cat([&] {
      if constexpr (std::is_same_v<Args, Tensor&>) {
        return std::tuple<Tensor&>(args);
      } else {
        return std::tuple<>();
      }
    }()...);
  }
  template <class Outputs>
  static Result asResult(Outputs outputs) {
    if constexpr (std::is_reference_v<Result>) {
      return std::get<0>(outputs);
    } else {
      return outputs;
    }
  }
};

// docs:begin cpu-kernel
/// The CPU kernel of operator `Op`, wherever it runs: for kernels written by hand, which
/// call it in their launch.
template <class Op, class... Args>
decltype(auto) callCpuKernel(Args&&... args) {
  return OperatorKernel<Op, OutputSource::Kernel>::callOnCpu(
      std::forward<Args>(args)...);
}
// docs:end cpu-kernel

/// An operator whose outputs follow from the shapes of its arguments.
template <class Op>
using CachedKernel = OperatorKernel<Op, OutputSource::Cache>;

/// An operator whose outputs are unknown until its kernel has run.
template <class Op>
using WaitingKernel = OperatorKernel<Op, OutputSource::Kernel>;

} // namespace at::native::openreg
