// The settings of the process, read once from the environment.
#pragma once

#include "openreg/device.h"
#include "fault_plan.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace openreg {

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;
inline constexpr size_t kGiB = 1024 * kMiB;

/// When queued work may run (OPENREG_SCHEDULE).
enum class Schedule {
  Auto, // at once; small work on an idle stream on the calling thread
  Async, // at once, always on the stream's worker
  Adversarial, // as late as synchronisation allows
};

struct Config {
  std::vector<orDeviceProp> devices; // the visible ones, in their order
  Schedule schedule = Schedule::Auto;
  uint64_t seed = 0;
  bool kernelsElsewhere = false; // whoever launches them has an executor
  bool launchBlocking = false;
  bool stickyErrors = true;
  std::chrono::nanoseconds waitTimeout{0}; // 0: none
  std::optional<FaultPlan> faults; // in force from the start

  /// Fills in the configuration. Returns what is wrong with the environment: a
  /// sentence with the variable, its value and what is accepted; "" if nothing.
  std::string read();
};

} // namespace openreg
