// Loops of our own kernels on all threads that a kernel has.
//
// Threads: any; `work` is called by several at once.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace at::native::openreg {

/// at::parallel_for() for the code of this library. ATen's is compiled into its caller, and
/// runs in one thread unless the caller is compiled for OpenMP; to be compiled for it means
/// to load a second OpenMP library beside PyTorch's.
///
/// Cuts [0, count) into one range for each thread, of `grain` or more, and calls `work`
/// with each. If several calls throw, one of the exceptions is rethrown.
void parallelFor(
    int64_t count,
    int64_t grain,
    c10::function_ref<void(int64_t begin, int64_t end)> work);

} // namespace at::native::openreg
