#include "runtime/OpenRegSchedule.h"

#include "runtime/OpenRegException.h"

#include <algorithm>

namespace c10::openreg {

void set_schedule(
    int schedule,
    uint64_t seed,
    const std::optional<std::vector<unsigned long long>>& delays) {
  // An empty list is not the same as none.
  static const unsigned long long kNothing = 0;
  const auto* const numbers = !delays ? nullptr
      : delays->empty()               ? &kNothing
                                      : delays->data();
  OPENREG_CHECK(orScheduleSet(
      static_cast<orSchedule>(schedule),
      seed,
      numbers,
      delays ? delays->size() : 0));
}

std::pair<int, uint64_t> get_schedule() {
  orSchedule schedule = orScheduleAuto;
  unsigned long long seed = 0;
  OPENREG_CHECK(orScheduleGet(&schedule, &seed));
  return {static_cast<int>(schedule), seed};
}

std::vector<orScheduledTask> scheduled_tasks() {
  size_t count = 0;
  OPENREG_CHECK(orScheduleGetTasks(nullptr, &count));
  std::vector<orScheduledTask> tasks(count);
  OPENREG_CHECK(orScheduleGetTasks(tasks.data(), &count));
  tasks.resize(std::min(count, tasks.size()));
  return tasks;
}

} // namespace c10::openreg
