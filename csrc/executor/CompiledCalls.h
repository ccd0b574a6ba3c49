// What C++ calls that torch.compile wrote with `cpp_wrapper`: kernels, and operators by
// the functions of tools/shims.py. Threads: any.
#pragma once

#include "executor/CompiledKernel.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <string>

namespace at::native::openreg {

// docs:begin compiled-calls
/// An argument of openreg_launch(): a tensor, or the bits of a number.
struct CompiledArgument {
  AtenTensorHandle tensor;
  uint64_t number;
};

extern "C" {

/// The kernel that was loaded under this key.
C10_EXPORT const CompiledKernel* openreg_find_kernel(const char* key);

/// CompiledKernel::launch()
C10_EXPORT void openreg_launch(
    const CompiledKernel* kernel,
    const CompiledArgument* arguments,
    size_t count);
}
// docs:end compiled-calls

/// Lets openreg_find_kernel() find it; of two with the same key the first is kept, since
/// they were made of the same source.
void addCompiledKernel(const std::string& key, const CompiledKernel& kernel);

/// For a catch block: rethrows the exception without the backtrace in its text. The caller
/// in generated code turns the text into a RuntimeError.
[[noreturn]] void rethrowForCompiledCode();

/// Calls an operator for generated code.
template <class Call>
AOTITorchError callOperator(const Call& call) {
  try {
    call();
  } catch (...) {
    rethrowForCompiledCode();
  }
  return AOTI_TORCH_SUCCESS;
}

} // namespace at::native::openreg
