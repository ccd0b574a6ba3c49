#include "runtime/OpenRegSubmit.h"

namespace c10::openreg {

std::atomic<SubmissionObserver*> detail::submissionObserver{nullptr};

SubmissionObserver* exchangeSubmissionObserver(SubmissionObserver* observer) {
  return detail::submissionObserver.exchange(observer);
}

void detail::notifyObserver(const Submission& work) {
  if (SubmissionObserver* observer = submissionObserver.load()) {
    std::vector<MemoryAccess> accesses;
    work.listAccesses(accesses);
    observer->onSubmit(work, accesses);
  }
}

void submitCopy(
    void* to,
    const void* from,
    size_t bytes,
    orMemcpyKind kind,
    const OpenRegStream& stream) {
  const auto list = [&](std::vector<MemoryAccess>& accesses) {
    accesses.push_back({from, bytes, false});
    accesses.push_back({to, bytes, true});
  };
  OPENREG_CHECK(submit({"copy", stream, list}, [&](orStream_t handle) {
    return orMemcpyAsync(to, from, bytes, kind, handle);
  }));
}

} // namespace c10::openreg
