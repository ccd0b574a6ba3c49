// The order in which queued work runs, for torch.openreg.faults.
//
// Threads: any.
#pragma once

#include <openreg.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace c10::openreg {

/// Waits for all devices, then changes the schedule; see orScheduleSet().
void set_schedule(
    int schedule,
    uint64_t seed,
    const std::optional<std::vector<unsigned long long>>& delays);

/// The schedule and its seed.
std::pair<int, uint64_t> get_schedule();

/// What the adversarial schedule has numbered since it was set.
std::vector<orScheduledTask> scheduled_tasks();

} // namespace c10::openreg
