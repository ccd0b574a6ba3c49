#include "executor/Launch.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegRunningHere.h"

#include <ATen/ThreadLocalState.h>

#include <exception>
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

/// What a kernel that ran now left behind for its caller.
struct Outcome {
  std::exception_ptr error;
  bool finished = false;

  void run(Body body) {
    try {
      const at::AutoDispatchBelowADInplaceOrView below;
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

template <class Run>
bool launchNow(const KernelNow& kernel, unsigned how, Run run) {
  const orLaunchConfig config{kernel.name, how};
  return OPENREG_IS_READY(c10::openreg::submit(
      {kernel.name, kernel.stream, kernel.accesses}, [&](orStream_t stream) {
        return orLaunchKernelEx(&config, stream, [&run] { run(); });
      }));
}

bool runOnThisThread(const KernelNow& kernel, unsigned how, Body body) {
  Outcome outcome;
  const c10::openreg::SingleThread single;
  const c10::openreg::RunningHere here(kernel.stream);
  if (!launchNow(kernel, how, [&] { outcome.run(body); })) {
    return false;
  }
  outcome.settle(kernel.stream);
  return true;
}

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

MemoryAccess accessTo(const TensorBase& tensor, bool writes) {
  if (tensor.numel() == 0 || !tensor.has_storage()) {
    return {nullptr, 0, writes};
  }
  int64_t elements = 1;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    elements += (tensor.size(i) - 1) * tensor.stride(i);
  }
  const auto* storage = static_cast<const char*>(tensor.storage().data());
  return {
      storage + tensor.storage_offset() * tensor.itemsize(),
      static_cast<size_t>(elements) * tensor.itemsize(),
      writes};
}

void* StreamMemory::tryAllocate(size_t bytes) {
  c10::DataPtr memory = getOpenRegDeviceAllocator().tryAllocate(bytes, stream_);
  return c10::openreg::kernelAddress(memory.release_context());
}

bool tryRun(const KernelNow& kernel, Body body) {
  return kernel.bytes <= kSmallBytes &&
      runOnThisThread(kernel, orLaunchTry, body);
}

void runHere(const KernelNow& kernel, Body body) {
  runOnThisThread(kernel, orLaunchHere, body);
}

// A pool of OpenMP threads per thread that runs kernels would slow all of them down:
// large ones run where the stream's other large kernels run.
void runAndWait(const KernelNow& kernel, Body body) {
  if (kernel.bytes <= kSmallBytes) {
    runHere(kernel, body);
    return;
  }
  Outcome outcome;
  WarningList warnings;
  const at::ThreadLocalState caller;
  const int threads = at::get_num_threads();
  launchNow(kernel, orLaunchWait, [&] {
    const at::ThreadLocalStateGuard state(caller);
    const c10::WarningUtils::WarningHandlerGuard keep(&warnings);
    c10::openreg::useThreads(threads);
    const c10::openreg::RunningHere here(kernel.stream);
    outcome.run(body);
  });
  warnings.pass();
  outcome.settle(kernel.stream);
}

size_t TensorUse::bytes() const {
  size_t bytes = 0;
  for (const auto& list : {reads, writes}) {
    for (const Tensor* tensor : list) {
      bytes += tensor->nbytes();
    }
  }
  return bytes;
}

void TensorUse::list(std::vector<MemoryAccess>& accesses) const {
  for (const Tensor* tensor : reads) {
    accesses.push_back(accessTo(*tensor, false));
  }
  for (const Tensor* tensor : writes) {
    accesses.push_back(accessTo(*tensor, true));
  }
}

} // namespace at::native::openreg
