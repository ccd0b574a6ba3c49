// Tensors and events that processes share.
#pragma once

#include "runtime/OpenRegStream.h"

#include <c10/core/Event.h>
#include <c10/core/Storage.h>

#include <string>

namespace c10::openreg {

// --- memory -------------------------------------------------------------------

/// Names a storage's memory for another process that shall receive it once. The
/// memory stays allocated until all who received it have let it go, whatever
/// becomes of the storage. Waits for the current stream, so that what is received
/// is complete. Throws for memory that was received itself.
///
/// The result is bytes for receiveStorage(); "" for a storage without bytes.
std::string sendStorage(const Storage& storage);

/// A storage over that memory, here or in another process. It cannot be resized.
/// Throws if the sender has ended or its device is not visible.
Storage receiveStorage(const std::string& message);

/// Gives back the memory that was sent, is no longer used here, and that nobody
/// else uses any more. Returns whether there was any.
bool collectSent();

/// Notes that a stream uses memory that was received. Returns false for all other
/// memory.
bool recordReceived(const DataPtr& data, const OpenRegStream& stream);

/// Whether a device address lies in memory that was received.
bool isReceived(const void* pointer);

// --- events -------------------------------------------------------------------

/// Creates the event of libopenreg that an event of PyTorch stands for, so that
/// other processes can open it. `timed` is refused.
void createSharedEvent(Event& event, DeviceIndex device, bool timed);

/// Names it for other processes: bytes for openSharedEvent().
std::string shareEvent(const Event& event);

/// Makes an event that was not recorded stand for one of another process.
void openSharedEvent(
    Event& event,
    DeviceIndex device,
    const std::string& handle);

/// Gives a handle to an event of PyTorch that has none; in OpenRegGuard.cpp.
void adoptEvent(Event& event, orEvent_t handle, DeviceIndex device);

} // namespace c10::openreg
