// What Python does for torch.distributed._symmetric_memory.
#pragma once

#include <functional>

namespace c10::openreg::occl {

/// Sets what calls a function without Python's lock. c10d holds it in rendezvous(), where
/// ranks wait for each other, also those that are threads of one process.
/// Threads: one, before there is a group.
void setUnlockedCall(std::function<void(const std::function<void()>&)> call);

} // namespace c10::openreg::occl
