// Changing the schedule while the process runs.
#include "openreg/schedule.h"

#include "adversary.h"
#include "device.h"
#include "runtime.h"

#include <algorithm>

using namespace openreg;

namespace {

static_assert(static_cast<int>(Schedule::Auto) == orScheduleAuto);
static_assert(static_cast<int>(Schedule::Async) == orScheduleAsync);
static_assert(static_cast<int>(Schedule::Adversarial) == orScheduleAdversarial);

orError_t checkSchedule(orSchedule schedule, bool delays) {
  if (schedule < orScheduleAuto || schedule > orScheduleAdversarial) {
    return fail(
        orErrorInvalidValue,
        "schedule must be orScheduleAuto (0), orScheduleAsync (1) or "
        "orScheduleAdversarial (2), but is %d",
        static_cast<int>(schedule));
  }
  return delays && schedule != orScheduleAdversarial
      ? fail(
            orErrorInvalidValue,
            "only the adversarial schedule delays tasks, but schedule is %d; "
            "pass no delays",
            static_cast<int>(schedule))
      : orSuccess;
}

} // namespace

orError_t orScheduleSet(
    orSchedule schedule,
    unsigned long long seed,
    const unsigned long long* delays,
    size_t count) {
  return unsafeBlockingApi("orScheduleSet", [&](Runtime& runtime) {
    orError_t status = checkSchedule(schedule, delays != nullptr);
    for (const auto& device : runtime.devices) {
      if (status == orSuccess) {
        status = device->waitForAll();
      }
    }
    if (status == orSuccess) {
      runtime.adversaryOnCall->restart(
          seed,
          delays ? std::optional(std::vector<uint64_t>(delays, delays + count))
                 : std::nullopt);
      runtime.schedule.store(static_cast<Schedule>(schedule));
    }
    return status;
  });
}

orError_t orScheduleGet(orSchedule* schedule, unsigned long long* seed) {
  return api("orScheduleGet", [&](Runtime& runtime) {
    if (!schedule || !seed) {
      return fail(
          orErrorInvalidValue,
          "%s must not be NULL",
          schedule ? "seed" : "schedule");
    }
    *schedule = static_cast<orSchedule>(runtime.schedule.load());
    *seed = runtime.adversaryOnCall->seed();
    return orSuccess;
  });
}

orError_t orScheduleGetTasks(orScheduledTask* tasks, size_t* count) {
  return api("orScheduleGetTasks", [&](Runtime& runtime) {
    if (!count || (*count != 0 && !tasks)) {
      return fail(
          orErrorInvalidValue,
          "%s must not be NULL",
          count ? "tasks" : "count");
    }
    const std::vector<orScheduledTask> all = runtime.adversaryOnCall->tasks();
    std::copy_n(all.begin(), std::min(*count, all.size()), tasks);
    *count = all.size();
    return orSuccess;
  });
}
