// Pinned host memory for PyTorch.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace c10::openreg {

/// The allocator behind pin_memory(): PyTorch's caching host allocator over
/// orMallocHost(). A block that a non-blocking copy uses is not handed out again
/// before the copy has run.
///
/// Threads: any may call anything.
at::HostAllocator* getOpenRegHostAllocator();

} // namespace c10::openreg
