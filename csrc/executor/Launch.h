// Kernels enter their stream here: now, or later.
//
// Threads: any.
#pragma once

#include "executor/KernelPace.h"
#include "executor/OutputMemory.h"
#include "runtime/OpenRegSubmit.h"

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <utility>

namespace at::native::openreg {

using c10::openreg::MemoryAccess;
using c10::openreg::OpenRegStream;

inline bool isOpenReg(const TensorBase& tensor) {
  return tensor.defined() && c10::openreg::isOpenReg(tensor.device());
}

/// The stream that work on a tensor goes to: its device's current one.
inline OpenRegStream streamOf(const TensorBase& tensor) {
  return c10::openreg::currentStreamOf(tensor.device());
}

/// Adds the bytes of memory that the elements of a tensor lie in: one range if they fill
/// it, else one for each run of elements, so that gaps are left out. Of a tensor with more
/// than kMostRuns runs, only the first ones are listed.
void listAccess(
    const TensorBase& tensor,
    bool writes,
    std::vector<MemoryAccess>& accesses);
inline constexpr int64_t kMostRuns = 1024;

/// Device memory of a stream for the outputs of kernels that run now.
class StreamMemory final : public DeviceMemorySource {
 public:
  explicit StreamMemory(const OpenRegStream& stream) : stream_(stream) {}
  void* tryAllocate(size_t bytes) override;

 private:
  const OpenRegStream& stream_;
};

/// Work that touches at most this many bytes is small: it takes about ten microseconds.
inline constexpr size_t kSmallBytes = 128 * 1024;

/// About how long one thread takes to stream so many bytes.
inline double microsecondsFor(size_t bytes) {
  constexpr double kBytesPerMicrosecond = 25'000;
  return static_cast<double>(bytes) / kBytesPerMicrosecond;
}

using Accesses = c10::function_ref<void(std::vector<MemoryAccess>&)>;
using Body = c10::function_ref<void()>;

// docs:begin run-now
/// A kernel that runs before its call returns; what it throws reaches the caller.
struct KernelNow {
  const char* name; ///< never freed
  const OpenRegStream& stream;
  bool isSmall; ///< so that the calling thread may run it
  double microseconds; ///< that it takes with one thread, roughly
  Accesses accesses;
  KernelPace* pace = nullptr; ///< never freed
};

/// Runs `body` on the calling thread if it is small and the stream is idle. Returns
/// false if it was not run.
bool tryRun(const KernelNow& kernel, Body body);

/// Runs `body` after the stream's earlier work: on the calling thread if one thread is
/// enough for it, else on the stream's, which has the others.
void runAndWait(const KernelNow& kernel, Body body);

/// The same on the calling thread in any case: for kernels that may need its Python
/// state.
void runHere(const KernelNow& kernel, Body body);
// docs:end run-now

/// How many threads a kernel gets that the calling thread launches, and where its time
/// is noted.
struct KernelShare {
  explicit KernelShare(const KernelNow& kernel);

  /// One or `threads`: decided when the kernel begins, by what else is running then.
  int threadsNow() const;

  /// Microseconds with one thread; infinite if it needs all threads.
  double expected() const;

  int threads; ///< 1, or the launcher's number
  float microseconds; ///< a rough estimate
  KernelPace* pace;
};

/// Runs a queued kernel below autograd, with so many threads. Since the launch has
/// checked the arguments, what it throws can only be about the data: a device-side
/// assert.
void runQueued(int threads, Body work);
void runQueued(const KernelShare& share, Body work);

template <class Work>
struct QueuedKernel {
  Work work;
  KernelShare share;

  void operator()() {
    runQueued(share, work);
  }
};

/// Queues `work`, or runs it at once if it is small and the stream idle. It holds
/// aliases, and its outputs exist already.
template <class Work>
void queue(const KernelNow& kernel, Work work) {
  const orLaunchConfig config{
      kernel.name, kernel.isSmall ? orLaunchSmall : orLaunchDefault};
  OPENREG_CHECK(c10::openreg::submit(
      {kernel.name, kernel.stream, kernel.accesses}, [&](orStream_t stream) {
        return orLaunchKernelEx(
            &config,
            stream,
            QueuedKernel<Work>{std::move(work), KernelShare(kernel)});
      }));
}

} // namespace at::native::openreg
