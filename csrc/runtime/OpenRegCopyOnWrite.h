// Storages that share their memory until one of them is written to.
#pragma once

#include <c10/core/StorageImpl.h>

namespace c10::openreg {

namespace detail {
void takeOwnMemory(StorageImpl& storage);
} // namespace detail

// docs:begin copy-on-write
/// To be called before work that writes to a storage is launched: if it shares its memory
/// with copy-on-write clones (`torch._lazy_clone`), it gets a copy of its own, queued in
/// the current stream of its device; the last one keeps the memory. Work that only reads
/// takes `data()` and copies nothing.
///
/// Throws if the device has no memory for the copy; the storage shares it still.
///
/// Threads: any, but one at a time for a storage, as for its memory.
inline void beginWrite(StorageImpl& storage) {
  if (C10_UNLIKELY(storage.has_materializer())) {
    detail::takeOwnMemory(storage);
  }
}
// docs:end copy-on-write

} // namespace c10::openreg
