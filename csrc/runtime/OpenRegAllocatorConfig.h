// PYTORCH_ALLOC_CONF for the block pool.
#pragma once

#include "runtime/pool/PoolTypes.h"

namespace c10::openreg {

/// The settings of the variable, or those that a program has set instead.
PoolConfig poolConfig();

} // namespace c10::openreg
