// Operators that are called boxed: all that have no written or generated kernel.
#pragma once

#include "executor/OperatorInfo.h"

#include <ATen/core/boxing/KernelFunction.h>

namespace at::native::openreg {

/// Runs any operator that has a CPU kernel, on device memory. Made once per operator and
/// layout, so that a call finds everything prepared.
///
/// Threads: any.
class BoxedKernel final : public c10::OperatorKernel {
 public:
  /// `key`: what it is registered for; `kernel`: the same layout on the CPU.
  BoxedKernel(
      const c10::OperatorHandle& op,
      c10::DispatchKey key,
      c10::DispatchKey kernel)
      : info_(op, key, kernel) {}

  void operator()(
      const c10::OperatorHandle& op,
      c10::DispatchKeySet keys,
      torch::jit::Stack* stack);

 private:
  OperatorInfo info_;
};

/// The same for operators without a BoxedKernel: the fallback for all namespaces.
void wrapper_cpu_fallback(
    const c10::OperatorHandle& op,
    torch::jit::Stack* stack);

} // namespace at::native::openreg
