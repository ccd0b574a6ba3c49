// Switches of PyTorch that CPU kernels read, as a message carries them.
#pragma once

#include <cstdint>

namespace c10::openreg::remote {

/// The switches of this process, one bit each, and the precision of products; and the
/// calling thread's grad mode.
uint32_t currentSwitches();

/// Sets them. Cheap if nothing changes.
void applySwitches(uint32_t switches);

} // namespace c10::openreg::remote
