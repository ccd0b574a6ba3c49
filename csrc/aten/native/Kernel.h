// Where CPU kernels are called: here, or in the device process.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>

namespace at::native::openreg {

/// What CPU kernels are called with: below autograd and everything else.
inline constexpr c10::DispatchKeySet kCpuKernel(c10::DispatchKey::CPU);

/// Whether kernels run in device processes (OPENREG_EXECUTOR=process).
extern const bool kKernelsRunElsewhere;

/// Calls an operator's CPU kernel in the device process that the memory of its
/// tensors belongs to, and returns when it has run there. What cannot cross runs on
/// the calling thread, and is counted. Arguments and results are those that the
/// kernel itself would have: CPU tensors at kernel addresses.
const c10::KernelFunction& remoteKernel();

/// The CPU kernel of a boxed call, wherever it runs. Sparse and other tensors that
/// are not strided stay here.
inline void callKernelBoxed(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet kernel,
    torch::jit::Stack* stack) {
  if (C10_LIKELY(!kKernelsRunElsewhere)) {
    op.redispatchBoxed(kernel, stack);
  } else {
    remoteKernel().callBoxed(op, kernel, stack);
  }
}

/// An operator of ours that calls CPU kernels by itself.
template <class Op>
concept CallsKernel = requires { Op::callsKernel; };

// docs:begin cpu-kernel
/// The CPU kernel of operator `Op`, wherever it runs.
template <class Op, class Signature = typename Op::schema>
struct CpuKernel;

template <class Op, class Result, class... Args>
struct CpuKernel<Op, Result(Args...)> {
  static Result call(Args... args) {
    if (CallsKernel<Op> || C10_LIKELY(!kKernelsRunElsewhere)) {
      return Op::redispatch(kCpuKernel, std::forward<Args>(args)...);
    }
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
        Op::name, Op::overload_name);
    return remoteKernel().template call<Result, Args...>(
        op, kCpuKernel, std::forward<Args>(args)...);
  }
};
// docs:end cpu-kernel

} // namespace at::native::openreg
