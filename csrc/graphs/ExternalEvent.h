// Events between a graph and the work outside of it.
#pragma once

#include "runtime/OpenRegStream.h"

#include <c10/core/Event.h>

namespace c10::openreg {

/// Adds a node that records the event to the graph that a stream captures: each replay
/// records it, and work outside can wait for that. Without it an event that is recorded in
/// a capture means a place in the graph.
void recordExternalEvent(Event& event, const OpenRegStream& stream, bool timed);

/// Adds a node that waits for the event as it was recorded last when the graph is
/// replayed.
void waitForExternalEvent(const Event& event, const OpenRegStream& stream);

} // namespace c10::openreg
