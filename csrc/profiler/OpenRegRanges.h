// Operators as ranges of the user, as torch.autograd.profiler.emit_nvtx() makes them.
#pragma once

#include <cstdint>

namespace c10::openreg::profiler {

/// From now on each operator of the calling thread, and of the backward passes that it
/// starts, is a range: its name, its number in the autograd graph and, on request, the
/// sizes of its arguments. Returns a handle for stopRanges().
uint64_t emitRanges(bool withSizes);

/// Ends that, on the same thread.
void stopRanges(uint64_t handle);

} // namespace c10::openreg::profiler
