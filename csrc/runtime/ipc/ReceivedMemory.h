// Memory of other processes that this one has received.
//
// Threads: any may call anything here.
#pragma once

#include "runtime/OpenRegStream.h"
#include "runtime/ipc/Message.h"

#include <c10/core/Allocator.h>

namespace c10::openreg::ipc {

/// Maps memory of another process until the result is destroyed and the work that used
/// it has run. Throws if the sender has ended or its device is not visible.
DataPtr openMemory(const Message& message);

/// Whether memory came from openMemory().
bool isReceived(const DataPtr& data);

/// Notes that a stream uses memory that was received. Returns false for all other
/// memory.
bool recordReceived(const DataPtr& data, const OpenRegStream& stream);

} // namespace c10::openreg::ipc
