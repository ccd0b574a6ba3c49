// Tensors that processes share.
//
// Threads: any may call anything here.
#pragma once

#include <c10/core/Storage.h>

#include <string>

namespace c10::openreg::ipc {

/// Names a storage's memory for another process that is to receive it once. The
/// memory stays allocated until all who received it have let it go, whatever
/// becomes of the storage. Waits for the current stream, so that what is received
/// is complete. Throws for memory that was received itself.
///
/// The result is bytes for receiveStorage(); "" for a storage without bytes.
std::string sendStorage(const Storage& storage);

/// A storage over that memory, here or in another process. It cannot be resized.
/// Throws if the sender has ended or its device is not visible.
Storage receiveStorage(const std::string& message);

} // namespace c10::openreg::ipc
