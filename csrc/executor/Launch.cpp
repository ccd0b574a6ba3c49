#include "executor/Launch.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegFunctions.h"
#include "runtime/OpenRegProfiling.h"
#include "runtime/OpenRegSingleThread.h"
#include "runtime/OpenRegTeam.h"
#include "runtime/OpenRegThreads.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>
#include <string>

namespace at::native::openreg {

using c10::openreg::getOpenRegDeviceAllocator;

namespace {

// Memory of aliases is freed at its device address.
struct InstallAllocator {
  InstallAllocator() {
    installOutputAllocator(
        {[](const void* pointer) {
           return c10::openreg::isDevicePointer(
               c10::openreg::deviceAddress(pointer));
         },
         [](void* pointer) {
           getOpenRegDeviceAllocator().raw_deleter()(
               c10::openreg::deviceAddress(pointer));
         }});
  }
} installAllocator;

// docs:begin muted-operators
/// Keeps operators that a kernel calls out of profiles: on a device they would be a
/// part of it.
class MutedOperators {
 public:
  MutedOperators() {
    if (C10_UNLIKELY(c10::openreg::profiling()) && at::hasCallbacks()) {
      muted_.emplace();
    }
  }

 private:
  std::optional<at::DisableRecordFunctionGuard> muted_;
};
// docs:end muted-operators

/// What a kernel that ran now left behind for its caller.
struct Outcome {
  std::exception_ptr error;
  bool finished = false;

  void run(Body body) {
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
    finished = true;
  }

  void settle(const OpenRegStream& stream) const {
    if (C10_UNLIKELY(error != nullptr)) {
      std::rethrow_exception(error);
    }
    if (C10_UNLIKELY(!finished)) {
      // The kernel was abandoned half way: the device says why.
      OPENREG_CHECK(orStreamSynchronize(stream));
    }
  }
};

// docs:begin run-on-this-thread
template <class Run>
void launchNow(const KernelNow& kernel, unsigned how, Run run) {
  const orLaunchConfig config{kernel.name, how};
  OPENREG_CHECK(c10::openreg::submit(
      {kernel.name, kernel.stream, kernel.accesses}, [&](orStream_t stream) {
        return orLaunchKernelEx(&config, stream, [&run] { run(); });
      }));
}

template <class Run>
bool tryLaunch(const KernelNow& kernel, Run run) {
  const orLaunchConfig config{kernel.name, orLaunchTry};
  return OPENREG_IS_READY(c10::openreg::trySubmit(
      {kernel.name, kernel.stream, kernel.accesses},
      [&](orStream_t stream, auto begin) {
        return orLaunchKernelEx(&config, stream, [&run, begin] {
          begin();
          run();
        });
      }));
}
// docs:end run-on-this-thread

/// Keeps warnings for the thread that called the operator.
class WarningList final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    warnings_.push_back(warning);
  }
  void pass() const {
    for (const c10::Warning& warning : warnings_) {
      c10::warn(warning);
    }
  }

 private:
  std::vector<c10::Warning> warnings_;
};

} // namespace

void listAccess(
    const TensorBase& tensor,
    bool writes,
    std::vector<MemoryAccess>& accesses) {
  if (tensor.numel() == 0 || !tensor.has_storage()) {
    return;
  }
  const auto item = static_cast<int64_t>(tensor.itemsize());
  const auto* first = static_cast<const char*>(tensor.storage().data()) +
      tensor.storage_offset() * item;
  // The dimensions from the innermost on, without those that repeat elements.
  c10::SmallVector<std::pair<int64_t, int64_t>, 6> dims; // stride, size
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1 && tensor.stride(i) != 0) {
      dims.emplace_back(tensor.stride(i), tensor.size(i));
    }
  }
  std::sort(dims.begin(), dims.end());
  int64_t run = 1; // elements without a gap
  size_t filled = 0; // dimensions that the run consists of
  for (; filled < dims.size() && dims[filled].first <= run; ++filled) {
    run += (dims[filled].second - 1) * dims[filled].first;
  }
  c10::SmallVector<int64_t, 6> place(dims.size(), 0);
  const auto bytes = static_cast<size_t>(run * item);
  for (int64_t runs = 0; runs < kMostRuns; ++runs) {
    int64_t offset = 0;
    for (size_t i = filled; i < dims.size(); ++i) {
      offset += place[i] * dims[i].first;
    }
    accesses.push_back({first + offset * item, bytes, writes});
    size_t i = filled;
    while (i < dims.size() && ++place[i] == dims[i].second) {
      place[i++] = 0;
    }
    if (i == dims.size()) {
      return;
    }
  }
}

void* StreamMemory::tryAllocate(size_t bytes) {
  c10::DataPtr memory = getOpenRegDeviceAllocator().tryAllocate(bytes, stream_);
  return c10::openreg::kernelAddress(memory.release_context());
}

namespace {

// docs:begin threads-for
/// How long a kernel takes with one thread, in microseconds, if several are worth it.
constexpr double kLarge = 80;
/// The same if the thread that launches kernels still needs a processor. It then takes
/// a member of the team its processor for a few milliseconds, and the others wait.
constexpr double kHuge = 10'000;

/// Whether a kernel may use so many threads and leave a processor to the thread that
/// launched it, which may be about to launch the next one.
bool leavesProcessors(int threads) {
  static const int processors = [] {
    cpu_set_t allowed;
    const bool known = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
    return known ? CPU_COUNT(&allowed) : 1;
  }();
  int waiting = 0;
  return processors > threads ||
      (orGetWaitingThreads(&waiting) == orSuccess && waiting > 0);
}
// docs:end threads-for

/// Whether it is worth a look at the clock.
bool isMeasured(double microseconds) {
  return microseconds >= KernelPace::kShortest && !std::isinf(microseconds);
}

/// While it lives, kernels on the calling thread have the whole team.
class WholeTeam {
 public:
  explicit WholeTeam(int threads)
      : threads_(c10::openreg::runs_in_device_processes() ? 1 : threads) {
    c10::openreg::wakeTeam();
    c10::openreg::useThreads(threads);
    if (threads_ > 1) {
      c10::openreg::spreadTeam(threads);
    }
  }
  ~WholeTeam() {
    c10::openreg::restTeam(threads_);
  }
  WholeTeam(const WholeTeam&) = delete;
  WholeTeam& operator=(const WholeTeam&) = delete;

 private:
  const int threads_; // of this process
};

/// Since the launch has checked the arguments, what a queued kernel throws can only be
/// about the data: a device-side assert.
void runChecked(Body work) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const MutedOperators muted;
  try {
    work();
  } catch (const c10::Error& error) {
    orKernelFail(orErrorAssert, error.what_without_backtrace());
  }
}

} // namespace

KernelShare::KernelShare(const KernelNow& kernel)
    : microseconds(static_cast<float>(kernel.microseconds)),
      pace(isMeasured(kernel.microseconds) ? kernel.pace : nullptr) {
  threads = expected() >= kLarge ? at::get_num_threads() : 1;
  if (threads > 1 && !c10::openreg::runs_in_device_processes()) {
    c10::openreg::giveTeamBack();
  }
}

double KernelShare::expected() const {
  return pace ? pace->expect(microseconds) : microseconds;
}

int KernelShare::threadsNow() const {
  return threads == 1 || expected() >= kHuge || leavesProcessors(threads)
      ? threads
      : 1;
}

void runQueued(const KernelShare& share, Body work) {
  const int threads = share.threadsNow();
  if (!share.pace) {
    return runQueued(threads, work);
  }
  const auto begin = std::chrono::steady_clock::now();
  runQueued(threads, work);
  const std::chrono::duration<double, std::micro> took =
      std::chrono::steady_clock::now() - begin;
  // A kernel that failed at once tells nothing.
  const double least = 0.1 * share.microseconds;
  share.pace->note(share.microseconds, std::max(took.count() * threads, least));
}

void runQueued(int threads, Body work) {
  if (threads > 1) {
    const WholeTeam team(threads);
    return runChecked(work);
  }
  const c10::openreg::SingleThread single;
  runChecked(work);
}

bool tryRun(const KernelNow& kernel, Body body) {
  if (!kernel.isSmall) {
    return false;
  }
  Outcome outcome;
  const c10::openreg::SingleThread single;
  const MutedOperators muted;
  if (!tryLaunch(kernel, [&] { outcome.run(body); })) {
    return false;
  }
  outcome.settle(kernel.stream);
  return true;
}

void runHere(const KernelNow& kernel, Body body) {
  Outcome outcome;
  const c10::openreg::SingleThread single;
  const MutedOperators muted;
  launchNow(kernel, orLaunchHere, [&] { outcome.run(body); });
  outcome.settle(kernel.stream);
}

// A pool of OpenMP threads per thread that runs kernels would slow all of them down:
// those with several threads run where the stream's other large kernels run.
void runAndWait(const KernelNow& kernel, Body body) {
  const int threads = kernel.isSmall ? 1 : KernelShare(kernel).threads;
  if (threads == 1) {
    runHere(kernel, body);
    return;
  }
  Outcome outcome;
  WarningList warnings;
  const at::ThreadLocalState caller;
  launchNow(kernel, orLaunchWait, [&] {
    const at::ThreadLocalStateGuard state(caller);
    const MutedOperators muted;
    const c10::WarningUtils::WarningHandlerGuard keep(&warnings);
    const WholeTeam team(threads);
    outcome.run(body);
  });
  warnings.pass();
  outcome.settle(kernel.stream);
}

} // namespace at::native::openreg
