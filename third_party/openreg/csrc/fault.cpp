#include "fault.h"

#include "device.h"
#include "runtime.h"
#include "transfer.h"

#include <cstring>
#include <mutex>
#include <string>
#include <utility>

namespace openreg::faults {

int planned = 0;

namespace {

std::mutex planMutex;
FaultPlan plan;

thread_local bool apply = true;
// The flip that was decided for the thread's last work; 0: none.
thread_local uint64_t dueFlip = 0;

void setPlanned(int value) {
  __atomic_store_n(&planned, value, __ATOMIC_RELAXED);
}

} // namespace

void set(FaultPlan next) {
  std::lock_guard lock(planMutex);
  plan = std::move(next);
  setPlanned(1);
}

orFault ask(const FaultPlan::Place& place) {
  if (!apply) {
    return {};
  }
  std::lock_guard lock(planMutex);
  // It may have been cleared since the caller looked.
  return anyPlanned() ? plan.ask(place) : orFault{};
}

orError_t lose(Device& device, const orFault& fault) {
  device.breakWith(
      orErrorDeviceLost,
      std::string("the fault plan lost the device (") + fault.rule + ")");
  return device.checkAfterWait();
}

orError_t beforeAllocation(Device& device) {
  const orFault fault =
      ask({orFaultSiteAlloc, nullptr, device.index(), /*rank=*/-1});
  switch (fault.kind) {
    case orFaultOom:
      return fail(
          orErrorMemoryAllocation,
          "the fault plan lets this allocation of device %d fail (%s)",
          device.index(),
          fault.rule);
    case orFaultLost:
      return lose(device, fault);
    default:
      return orSuccess;
  }
}

orError_t beginCapture(Stream& stream, orStreamCaptureMode mode) {
  orFault fault{};
  if (anyPlanned()) [[unlikely]] {
    fault = ask(
        {orFaultSiteCapture, nullptr, stream.device().index(), /*rank=*/-1});
  }
  if (fault.kind == orFaultLost) {
    return lose(stream.device(), fault);
  }
  const orError_t status = runtime().captures.begin(stream, mode);
  if (status == orSuccess && fault.kind == orFaultError) {
    runtime().captures.invalidate(stream);
  }
  return status;
}

bool concerns(TaskKind kind) {
  return kind == TaskKind::Kernel || kind == TaskKind::Copy ||
      kind == TaskKind::Set || kind == TaskKind::Graph;
}

orFault beforeWork(const Device& device, const Work& work) {
  const orFault fault = ask(
      {work.info.kind == TaskKind::Copy ? orFaultSiteCopy : orFaultSiteLaunch,
       work.info.name,
       device.index(),
       /*rank=*/-1});
  dueFlip = fault.kind == orFaultFlip ? fault.random | 1 : 0;
  return fault;
}

namespace {

struct FlipBit {
  void* pointer;
  unsigned bit;

  void operator()() const {
    if (char* const byte = reach(pointer, 1)) {
      *byte = static_cast<char>(*byte ^ (1 << bit));
    }
  }
};

// Of all bits that the work writes, the one that the plan drew.
FlipBit chooseBit(const orFaultRange* ranges, size_t count, uint64_t random) {
  size_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    total += ranges[i].bytes;
  }
  size_t byte = total == 0 ? 0 : static_cast<size_t>((random >> 3) % total);
  for (size_t i = 0; i < count; ++i) {
    if (byte < ranges[i].bytes) {
      return {
          static_cast<char*>(ranges[i].pointer) + byte,
          static_cast<unsigned>(random >> 61)};
    }
    byte -= ranges[i].bytes;
  }
  return {nullptr, 0};
}

orError_t flip(
    const orFaultRange* ranges,
    size_t count,
    orStream_t handle,
    uint64_t random) {
  Stream* const stream = runtime().streams.find(handle);
  if (!stream) {
    return failOnStream(handle);
  }
  if (count != 0 && !ranges) {
    return fail(
        orErrorInvalidValue, "ranges must not be NULL for %zu of them", count);
  }
  const FlipBit task = chooseBit(ranges, count, random);
  if (!task.pointer) {
    return orSuccess; // the work writes nothing
  }
  // A host function's kind: the plan is not asked about it.
  const Work work{.info = {"flip a bit", TaskKind::HostFunc}};
  return runtime().addresses.deviceOf(task.pointer) < 0
      ? submitAndWait(*stream, work, task)
      : submitCallable(*stream, work, task);
}

} // namespace
} // namespace openreg::faults

using namespace openreg;

orError_t orFaultPlan(const char* text) {
  return api("orFaultPlan", [&](Runtime& runtime) {
    if (!text) {
      return fail(orErrorInvalidValue, "text must not be NULL");
    }
    FaultPlan plan;
    if (const std::string wrong = FaultPlan::parse(text, &plan);
        !wrong.empty()) {
      return failWith(orErrorInvalidValue, wrong);
    }
    plan.setDefaultSeed(runtime.config.seed);
    faults::set(std::move(plan));
    return orSuccess;
  });
}

orError_t orFaultClear(void) {
  return api("orFaultClear", [&](Runtime&) {
    std::lock_guard lock(faults::planMutex);
    faults::setPlanned(0);
    return orSuccess;
  });
}

orError_t orFaultCount(const char* kind, unsigned long long* count) {
  return api("orFaultCount", [&](Runtime&) {
    if (!kind || !count) {
      return fail(
          orErrorInvalidValue, "%s must not be NULL", kind ? "count" : "kind");
    }
    std::lock_guard lock(faults::planMutex);
    if (const auto found = findFaultKind(kind)) {
      *count = faults::plan.fired(*found);
    } else if (const auto site = findFaultSite(kind)) {
      *count = faults::plan.asked(*site);
    } else {
      return fail(
          orErrorInvalidValue,
          "'%s' is neither a kind of fault (oom, error, lost, slow, flip, "
          "drop-rank) nor a place (alloc, launch, copy, capture, collective)",
          kind);
    }
    return orSuccess;
  });
}

orError_t orFaultAsk(
    orFaultSite site,
    const char* name,
    int device,
    int rank,
    orFault* fault) {
  return api("orFaultAsk", [&](Runtime&) {
    if (!fault) {
      return fail(orErrorInvalidValue, "fault must not be NULL");
    }
    if (site < orFaultSiteAlloc || site > orFaultSiteCollective) {
      return fail(
          orErrorInvalidValue,
          "site must be in [0, %d], but is %d",
          static_cast<int>(orFaultSiteCollective),
          static_cast<int>(site));
    }
    *fault = faults::anyPlanned() ? faults::ask({site, name, device, rank})
                                  : orFault{};
    return orSuccess;
  });
}

orError_t orFaultFlipOutput(
    const orFaultRange* ranges,
    size_t count,
    orStream_t stream) {
  return api("orFaultFlipOutput", [&](Runtime&) {
    const uint64_t due = std::exchange(faults::dueFlip, 0);
    return due == 0 ? orSuccess : faults::flip(ranges, count, stream, due);
  });
}

orError_t orThreadExchangeFaults(int* enabled) {
  return api("orThreadExchangeFaults", [&](Runtime&) {
    if (!enabled || (*enabled != 0 && *enabled != 1)) {
      return fail(
          orErrorInvalidValue,
          enabled ? "enabled must be 0 or 1, but is %d"
                  : "enabled must not be NULL",
          enabled ? *enabled : 0);
    }
    *enabled = std::exchange(faults::apply, *enabled == 1) ? 1 : 0;
    return orSuccess;
  });
}

orError_t orFaultGetFlag(const int** flag) {
  if (!flag) {
    return fail(orErrorInvalidValue, "flag must not be NULL");
  }
  *flag = &faults::planned;
  return orSuccess;
}
