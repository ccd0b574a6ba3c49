// Segments of private pools that come from functions of a program, not from the device.
//
// Threads: any may call anything.
#pragma once

#include "runtime/OpenRegUncachedMemory.h"

namespace c10::openreg {

/// Memory of a device from such a function, or nullptr if it has none.
void* mapPluggedSegment(
    const PluggedAllocator& allocator,
    size_t bytes,
    int device,
    orStream_t stream);

/// Gives it back through the matching function. Returns false if the memory is not of
/// this kind.
bool unmapPluggedSegment(void* segment);

} // namespace c10::openreg
