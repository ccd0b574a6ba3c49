// The end of a process.
#pragma once

namespace c10::openreg {

/// Waits until autograd's threads for openreg devices have let go of everything
/// that belongs to Python. To be called while Python still runs, without holding
/// the GIL.
///
/// PyTorch's engine returns from backward() while the device's thread still frees
/// what the backward pass has captured. If the interpreter ends meanwhile, that
/// thread finds no GIL to take and the process aborts.
void settle_autograd_threads() noexcept;

} // namespace c10::openreg
