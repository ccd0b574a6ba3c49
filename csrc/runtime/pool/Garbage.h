// Which unused segments the block pool gives back when memory is short.
#pragma once

#include "runtime/pool/Block.h"

#include <cstdint>
#include <vector>

namespace c10::openreg {

/// Chooses among the unused segments of one kind and stream, sorted by size: one of at
/// least `wanted` bytes, or else as many oversize ones as it takes, the largest first.
std::vector<PoolBlock*> chooseOversize(
    const std::vector<PoolBlock*>& unused,
    size_t wanted,
    size_t oversize);

/// Chooses the segments that have been unused for longest, until they have `wanted`
/// bytes. `now` counts as `freedAt` of the blocks does.
std::vector<PoolBlock*> chooseOld(
    std::vector<PoolBlock*> unused,
    size_t wanted,
    uint64_t now);

/// The bytes of the blocks.
size_t bytesOf(const std::vector<PoolBlock*>& blocks);

} // namespace c10::openreg
