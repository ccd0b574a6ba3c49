// Registration of all operators that nobody wrote a kernel for.
#pragma once

namespace at::openreg {

/// Registers the executor for every operator of PyTorch that has a CPU kernel and
/// none for openreg. To be called once all libraries that register kernels for
/// openreg are loaded; torch_openreg does it on import. Calling it again does
/// nothing.
void registerExecutor();

} // namespace at::openreg
