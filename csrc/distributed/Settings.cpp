#include "distributed/Settings.h"

#include <c10/util/Exception.h>
#include <c10/util/env.h>

#include <cstdio>
#include <cstdlib>

namespace c10::openreg::occl {

bool blockingWait() {
  // OPENREG_OCCL_BLOCKING_WAIT: 1: wait() of a collective waits on the host, so that a
  // failure is raised there. Default: 0.
  static const bool set =
      c10::utils::check_env("OPENREG_OCCL_BLOCKING_WAIT").value_or(false);
  return set;
}

// OPENREG_OCCL_TIMEOUT: the timeout of every group in seconds, whatever the program says;
// helps to find a hang. Default: as the program says.
std::optional<std::chrono::milliseconds> timeoutForAll() {
  const auto value = c10::utils::get_env("OPENREG_OCCL_TIMEOUT");
  if (!value) {
    return std::nullopt;
  }
  const double seconds = std::strtod(value->c_str(), nullptr);
  TORCH_CHECK_VALUE(
      seconds > 0 && seconds < 1e9,
      "OPENREG_OCCL_TIMEOUT must be a number of seconds, but is ",
      *value);
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
}

// OPENREG_OCCL_ASYNC_ERROR_HANDLING: 1: a collective that fails because of another rank
// ends the process, even if the program is busy with something else, so that torchrun
// starts it again; 0: its error is raised at the next synchronisation. Default: 0.
void endProcessIfTold(const char* why) {
  static const bool told =
      c10::utils::check_env("OPENREG_OCCL_ASYNC_ERROR_HANDLING")
          .value_or(false);
  if (told) {
    std::fprintf(
        stderr,
        "OPENREG_OCCL_ASYNC_ERROR_HANDLING is set and a collective failed, so "
        "the process ends: %s\n",
        why);
    std::abort();
  }
}

std::optional<Topology> topology() {
  // OPENREG_TOPOLOGY: cluster whose links decide how long collectives take: `nvlink8`,
  // `2x8-ib`, or a file. Changes time, never numbers. Default: none.
  const auto value = c10::utils::get_env("OPENREG_TOPOLOGY");
  return value ? std::optional(Topology::parse(*value)) : std::nullopt;
}

} // namespace c10::openreg::occl
