// A thread of the device process: serves the calls of one thread of the driver.
#pragma once

#include "remote/Channel.h"
#include "remote/StatusPage.h"

namespace openreg::device {

/// Runs calls until the driver closes the channel. `slot`, which may be nullptr,
/// tells what is running.
void serve(
    c10::openreg::remote::Channel channel,
    c10::openreg::remote::StatusPage& status,
    c10::openreg::remote::StatusPage::Slot* slot);

} // namespace openreg::device
