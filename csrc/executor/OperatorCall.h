// Calls of operators whose kernels make their outputs.
#pragma once

#include "executor/Invocation.h"

#include <ATen/core/ivalue.h>

namespace at::native::openreg {

using Results = c10::SmallVector<c10::IValue, 4>;

/// One run of a kernel: its arguments as it gets them, and what it returns.
struct KernelRun {
  OperatorInfo& op;
  ArgumentSpan arguments;
  Results results{};

  template <class T>
  T get(size_t place) const {
    return getArgument<T>(arguments, place);
  }
};

/// Calls an operator that is not structured: its kernel makes the outputs, or changes
/// the arguments. The results are the operator's, but for those that are arguments.
Results callOperator(OperatorInfo& op, ArgumentSpan arguments);

/// The same for an operator of any kind whose outputs must be those that its kernel
/// makes.
Results callAndWait(OperatorInfo& op, ArgumentSpan arguments);

/// Calls the CPU's kernel on arguments that are the CPU's, here or in the device
/// process; `outputs` is for callRemotely().
void runKernel(const OpenRegStream* outputs, KernelRun& run);

} // namespace at::native::openreg
