// What environment variables say of groups; each is described where it is read.
#pragma once

#include "distributed/Topology.h"

#include <chrono>
#include <optional>

namespace c10::openreg::occl {

/// Whether wait() waits on the host.
bool blockingWait();

/// The timeout that all groups have, whatever their programs say.
std::optional<std::chrono::milliseconds> timeoutForAll();

/// The cluster whose links decide how long collectives take, if any.
std::optional<Topology> topology();

/// Aborts the process after a collective has failed, if the variable asks for it.
void endProcessIfTold(const char* why);

} // namespace c10::openreg::occl
