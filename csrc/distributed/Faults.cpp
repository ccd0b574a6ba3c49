#include "distributed/Faults.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace c10::openreg::occl {
namespace {

// The exit status of a rank that a plan drops: that of a process which was killed.
constexpr int kDroppedStatus = 137;

// Neither destructors nor Python's exit code run: the rank dies, as of a signal.
[[noreturn]] void leave(const char* name, int rank, const orFault& fault) {
  std::fprintf(
      stderr,
      "openreg: rank %d leaves at %s: the fault plan drops it (%s)\n",
      rank,
      name,
      fault.rule);
  std::fflush(stderr);
  std::_Exit(kDroppedStatus);
}

void delay(const OpenRegStream& stream, std::chrono::nanoseconds duration) {
  const orLaunchConfig config{"pause of a fault plan", orLaunchDefault};
  const WithoutFaults part; // of the collective
  OPENREG_CHECK(orLaunchKernelEx(&config, stream.stream(), [duration] {
    std::this_thread::sleep_for(duration);
  }));
}

} // namespace

void askAboutCollective(
    const char* name,
    const OpenRegStream& stream,
    int rank) {
  const int device = stream.device_index();
  const orFault fault = askFaultPlan(orFaultSiteCollective, name, device, rank);
  if (fault.delay != 0) {
    delay(stream, std::chrono::nanoseconds(fault.delay));
  }
  switch (fault.kind) {
    case orFaultDropRank:
      leave(name, rank, fault);
    case orFaultLost:
      OPENREG_CHECK(orDeviceFail(device, orErrorDeviceLost, fault.rule));
      break;
    default:
      TORCH_CHECK_WITH(
          DistBackendError,
          fault.kind != orFaultError,
          "the fault plan lets ",
          name,
          " of rank ",
          rank,
          " fail (",
          fault.rule,
          ")");
  }
}

} // namespace c10::openreg::occl
