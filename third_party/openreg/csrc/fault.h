// The fault plan in force, and the places of this library where it is asked.
//
// Threads: any; one lock guards the plan. Without a plan a place costs one load.
#pragma once

#include "openreg/capture.h"
#include "fault_plan.h"
#include "stream.h"

namespace openreg {

class Device;

namespace faults {

extern int planned; // 1: a plan is in force

inline bool anyPlanned() {
  return __atomic_load_n(&planned, __ATOMIC_RELAXED) != 0;
}

/// Puts a plan into force.
void set(FaultPlan plan);

/// What is to happen at a place; nothing if plans do not apply to the calling thread.
orFault ask(const FaultPlan::Place& place);

/// Loses the device; returns its error.
orError_t lose(Device& device, const orFault& fault);

/// Asks about an allocation of a device, and lets it fail.
orError_t beforeAllocation(Device& device);

/// Asks about a capture that would begin, and begins it.
orError_t beginCapture(Stream& stream, orStreamCaptureMode mode);

/// Whether a plan is asked about work of this kind.
bool concerns(TaskKind kind);

/// Asks about work that is about to enter its stream. Sets the flip that is due after
/// it, or none.
orFault beforeWork(const Device& device, const Work& work);

} // namespace faults
} // namespace openreg
