// A mode that reports calls which make the host wait for the device.
#pragma once

namespace c10::openreg {

/// The values are those of torch.cuda.set_sync_debug_mode().
enum class SyncDebugMode { Disabled = 0, Warn = 1, Error = 2 };

/// For the whole process, as on CUDA. Throws unless `mode` is 0, 1 or 2.
void set_sync_debug_mode(int mode);
SyncDebugMode get_sync_debug_mode() noexcept;

/// To be called before the host waits; does what the mode says.
void noteSynchronization();

} // namespace c10::openreg
