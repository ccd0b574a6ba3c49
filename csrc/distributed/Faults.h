// Fault plans at collectives.
#pragma once

#include "runtime/OpenRegFaults.h"
#include "runtime/OpenRegStream.h"

namespace c10::openreg::occl {

/// Asks the fault plan about a collective, or a message, that this rank of the world is
/// about to join, and does what the plan decides: throws, loses the device, delays the
/// work of `stream`, or ends the process.
///
/// Threads: any.
void askAboutCollective(
    const char* name,
    const OpenRegStream& stream,
    int rank);

} // namespace c10::openreg::occl
