// What copies and sets have in common: checks during the call, the way to the
// bytes when the task runs, and waiting for a task that uses the caller's buffer.
#pragma once

#include "config.h"
#include "device.h"
#include "runtime.h"
#include "submit.h"
#include "transfer_threads.h"

#include <atomic>
#include <memory>

namespace openreg {

/// Up to here an asynchronous copy or set may run on the calling thread.
inline constexpr size_t kSmallTransfer = 64 * kKiB;

/// Checks that `bytes` at `pointer` lie in one live allocation of the device
/// that owns it. `device`, if not -1, must be that owner.
orError_t checkDeviceRange(
    const char* argument,
    const void* pointer,
    size_t bytes,
    int device = -1);

/// Where a running task finds `bytes` at `pointer`. Device memory may have gone
/// since the call was checked: then the task fails and the result is nullptr.
char* reach(const void* pointer, size_t bytes);

/// Calls `part(begin, end)` until [0, units) is done: at once, or in parts that
/// several threads share. In a running task only, which an illegal address fails.
template <class Part>
void inParts(size_t units, size_t bytesPerUnit, const Part& part) {
  uintptr_t fault = TransferThreads::kNoFault;
  if (!runtime().transferThreads.tryRun(
          units,
          bytesPerUnit,
          [](const void* context, size_t begin, size_t end) {
            (*static_cast<const Part*>(context))(begin, end);
          },
          &part,
          &fault)) {
    part(0, units);
  }
  if (fault != TransferThreads::kNoFault) {
    failRunningTaskAt(fault);
  }
}

/// Work that its launcher can still call off while it has not begun.
template <class Callable>
struct Revocable {
  Callable callable;
  std::shared_ptr<std::atomic<bool>> taken;

  void operator()() {
    if (!taken->exchange(true)) {
      callable();
    }
  }
};

/// Submits work and waits for it. If the wait times out, the work will not be done later either, because the
/// caller's buffer may be gone by then.
template <class Callable>
orError_t submitAndWait(Stream& stream, Work work, Callable callable) {
  orError_t status = checkMayBlock();
  if (status != orSuccess) {
    return status;
  }
  uint64_t finished = 0;
  std::shared_ptr<std::atomic<bool>> taken;
  if (runtime().config.waitTimeout.count() == 0) {
    status = submitCallable(stream, work, callable, &finished);
  } else {
    taken = std::make_shared<std::atomic<bool>>(false);
    status = submitCallable(
        stream, work, Revocable<Callable>{callable, taken}, &finished);
  }
  if (status == orSuccess) {
    status = stream.wait(finished);
  }
  if (status == orErrorTimeout && taken && taken->exchange(true)) {
    stream.waitForGood(finished); // it has begun, so it ends
    status = orSuccess;
  }
  return status == orSuccess ? stream.device().checkAfterWait() : status;
}

} // namespace openreg
