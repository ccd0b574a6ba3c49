// The one way into a stream, and the one place to watch.
#pragma once

#include "runtime/OpenRegException.h"
#include "runtime/OpenRegFaults.h"
#include "runtime/OpenRegStream.h"

#include <c10/util/FunctionRef.h>

#include <atomic>
#include <vector>

namespace c10::openreg {

/// A range of memory that work reads or writes: device addresses, or host addresses of
/// a copy.
struct MemoryAccess {
  const void* pointer;
  size_t bytes;
  bool writes;
};

/// A piece of work when it enters its stream.
struct Submission {
  const char* name; ///< never freed
  const OpenRegStream& stream;
  /// Adds the ranges that the work touches; called only if there is an observer.
  c10::function_ref<void(std::vector<MemoryAccess>&)> listAccesses;
  bool isRunning = false; ///< on the calling thread, since this moment
};

// docs:begin submission-observer
/// Is told of every piece of work, on the thread that launches it, before the work is
/// launched or, if that thread runs it, before it begins. An observer changes neither what
/// runs nor when, so it may not wait for a stream.
///
/// Threads: called by any number at a time.
class SubmissionObserver {
 public:
  virtual ~SubmissionObserver() = default;
  virtual void onSubmit(
      const Submission& work,
      const std::vector<MemoryAccess>& accesses) = 0;
  /// The same work has entered its stream, before anything else that this thread does.
  virtual void onLaunched(const Submission& /*work*/) {}
};
// docs:end submission-observer

/// Sets the observer, or none with nullptr, and returns the one before. That one must
/// live until work that is being launched has entered its stream.
SubmissionObserver* exchangeSubmissionObserver(SubmissionObserver* observer);

namespace detail {
extern std::atomic<SubmissionObserver*> submissionObserver;

inline bool isObserved() {
  return C10_UNLIKELY(
      submissionObserver.load(std::memory_order_relaxed) != nullptr);
}
void notifyBefore(const Submission& work);
void notifyAfter(const Submission& work);

/// Launches, and lets the fault plan flip a bit of what the work writes.
orError_t submitAsPlanned(
    const Submission& work,
    c10::function_ref<orError_t()> launch);
/// Launches, and tells the observer before and after.
orError_t submitObserved(
    const Submission& work,
    c10::function_ref<orError_t()> launch);
} // namespace detail

// docs:begin submit
/// Lets work enter its stream: kernels, copies, fills, whatever touches device memory.
/// `launch(stream)` calls libopenreg; its status is returned.
template <class Launch>
orError_t submit(const Submission& work, Launch&& launch) {
  if (C10_UNLIKELY(faultsPlanned() || detail::isObserved())) {
    return detail::submitObserved(
        work, [&] { return launch(work.stream.stream()); });
  }
  return launch(work.stream.stream());
}

/// The same for work that enters its stream only if it can run at once: the first thing
/// it does then is to call `begin`, in `launch(stream, begin)`.
template <class Launch>
orError_t trySubmit(const Submission& work, Launch&& launch) {
  const orError_t status = launch(work.stream.stream(), [&work] {
    if (detail::isObserved()) {
      detail::notifyBefore(
          {work.name, work.stream, work.listAccesses, /*isRunning=*/true});
    }
  });
  if (detail::isObserved() && status == orSuccess) {
    detail::notifyAfter(work);
  }
  return status;
}
// docs:end submit

/// A copy of bytes in a stream; see orMemcpyAsync().
void submitCopy(
    void* to,
    const void* from,
    size_t bytes,
    orMemcpyKind kind,
    const OpenRegStream& stream);

} // namespace c10::openreg
