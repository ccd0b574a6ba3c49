// PYTORCH_ALLOC_CONF for the block pool.
#pragma once

#include "runtime/pool/PoolTypes.h"

namespace c10::openreg {

/// What the variable says, or what was set in its place.
PoolConfig poolConfig();

} // namespace c10::openreg
