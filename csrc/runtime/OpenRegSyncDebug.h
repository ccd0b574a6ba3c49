// A mode that reports calls which make the host wait for the device.
//
// Threads: any; there is one mode for all.
#pragma once

#include <openreg.h>

namespace c10::openreg {

/// The values are those of torch.cuda.set_sync_debug_mode().
enum class SyncDebugMode { Disabled = 0, Warn = 1, Error = 2 };

/// For the whole process, as on CUDA. Throws unless `mode` is 0, 1 or 2.
void set_sync_debug_mode(int mode);
SyncDebugMode get_sync_debug_mode() noexcept;

/// To be called before the host waits for a stream: does what the mode says, then
/// tells PyTorch's GPU trace.
void noteSynchronization(orStream_t stream);

} // namespace c10::openreg
