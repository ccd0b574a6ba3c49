// For code that keeps several graphs in one pool of memory: brings the pool back to an
// earlier state, and says who owns what then.
//
// Threads: any, but the storages are the caller's.
#pragma once

#include "runtime/pool/Checkpoint.h"

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <vector>

namespace c10::openreg {

/// Which blocks of a private pool are allocated now.
PoolCheckpoint checkpointOf(DeviceIndex device, MempoolId_t pool);

// docs:begin restore-pool
/// Restores a pool to the state of a checkpoint. Storages whose memory is then free must
/// be among `stale`: they keep the address, but will not free it. The storages in `live`
/// own the memory that is allocated again. Throws, and changes nothing, if the pool has
/// lost a segment or if work in other streams holds a block back.
void restorePool(
    DeviceIndex device,
    const PoolCheckpoint& checkpoint,
    const std::vector<StorageImpl*>& stale,
    const std::vector<StorageImpl*>& live);
// docs:end restore-pool

/// Frees memory that restorePool() allocated again and no storage owns; false if there
/// is none at that address.
bool freeUnowned(void* pointer);

/// Frees the memory of a storage now; the storage keeps the address.
void freeNow(StorageImpl& storage);

/// Whether a storage frees its memory in the end.
bool ownsMemory(const StorageImpl& storage);

/// The addresses of the allocated blocks of a private pool.
std::vector<uintptr_t> liveAllocations(DeviceIndex device, MempoolId_t pool);

} // namespace c10::openreg
