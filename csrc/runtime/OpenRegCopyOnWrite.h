// Storages that share their memory until one of them is written to.
#pragma once

#include <c10/core/StorageImpl.h>

namespace c10::openreg {

namespace detail {
void takeOwnMemory(StorageImpl& storage);
} // namespace detail

// docs:begin copy-on-write
/// Call this before launching work that writes to a storage. If the storage shares its
/// memory with copy-on-write clones (`torch._lazy_clone`), it gets its own copy, which is
/// queued in the current stream of its device; the last sharer keeps the memory. Work that
/// only reads uses `data()`, which copies nothing.
///
/// Throws if the device has no memory for the copy; the storage then shares as before.
///
/// Threads: any, but one at a time for a storage, as for its memory.
inline void beginWrite(StorageImpl& storage) {
  if (C10_UNLIKELY(storage.has_materializer())) {
    detail::takeOwnMemory(storage);
  }
}
// docs:end copy-on-write

} // namespace c10::openreg
