// Which classes PyTorch gets.
#pragma once

#include "hooks.h"
#include "runtime.h"

namespace mini {
using Guard = MiniGuard;
using Memory = MiniAllocator;
using Hooks = MiniHooks;
} // namespace mini
