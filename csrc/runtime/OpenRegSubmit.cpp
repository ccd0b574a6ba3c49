#include "runtime/OpenRegSubmit.h"

#include <ATen/Parallel.h>

namespace c10::openreg {

std::atomic<SubmissionObserver*> detail::submissionObserver{nullptr};

SubmissionObserver* exchangeSubmissionObserver(SubmissionObserver* observer) {
  return detail::submissionObserver.exchange(observer);
}

void detail::notifyBefore(const Submission& work) {
  if (SubmissionObserver* observer = submissionObserver.load()) {
    std::vector<MemoryAccess> accesses;
    work.listAccesses(accesses);
    observer->onSubmit(work, accesses);
  }
}

void detail::notifyAfter(const Submission& work) {
  if (SubmissionObserver* observer = submissionObserver.load()) {
    observer->onLaunched(work);
  }
}

orError_t detail::submitObserved(
    const Submission& work,
    c10::function_ref<orError_t()> launch) {
  if (isObserved()) {
    notifyBefore(work);
  }
  const orError_t status =
      faultsPlanned() ? submitAsPlanned(work, launch) : launch();
  if (isObserved() && status == orSuccess) {
    notifyAfter(work);
  }
  return status;
}

orError_t detail::submitAsPlanned(
    const Submission& work,
    c10::function_ref<orError_t()> launch) {
  std::vector<MemoryAccess> accesses;
  work.listAccesses(accesses); // before the launch takes them along
  const orError_t status = launch();
  if (status != orSuccess) {
    return status;
  }
  std::vector<orFaultRange> written;
  for (const MemoryAccess& access : accesses) {
    if (access.writes && access.bytes != 0) {
      written.push_back({const_cast<void*>(access.pointer), access.bytes});
    }
  }
  return orFaultFlipOutput(
      written.data(), written.size(), work.stream.stream());
}

namespace {

// A large copy uses as many threads as the CPU's does.
void setTransferThreads(size_t bytes) {
  constexpr size_t kLarge = 1 << 20;
  static std::atomic<int> set{0};
  if (bytes < kLarge) {
    return;
  }
  const int threads = at::get_num_threads();
  if (set.exchange(threads, std::memory_order_relaxed) != threads) {
    OPENREG_CHECK(orSetTransferThreads(threads));
  }
}

} // namespace

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
  setTransferThreads(bytes);
  OPENREG_CHECK(submit({"copy", stream, list}, [&](orStream_t handle) {
    return orMemcpyAsync(to, from, bytes, kind, handle);
  }));
}

} // namespace c10::openreg
