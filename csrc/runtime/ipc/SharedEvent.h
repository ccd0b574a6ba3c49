// Events that processes share.
#pragma once

#include <c10/core/Event.h>

#include <string>

namespace c10::openreg::ipc {

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

} // namespace c10::openreg::ipc
