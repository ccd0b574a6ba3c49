// The one way into the device for operators: run now, or queue.
#pragma once

#include "aten/native/Alias.h"
#include "aten/native/DeviceCheck.h"
#include "aten/native/Fallback.h"
#include "aten/native/Kernel.h"
#include "runtime/OpenRegRunningHere.h"
#include "runtime/OpenRegThreads.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <exception>
#include <utility>

namespace at::native::openreg {

/// The stream that work on a tensor goes to: its device's current one.
inline OpenRegStream streamOf(const TensorBase& tensor) {
  return c10::openreg::currentStreamOf(tensor.device());
}

/// The name of an operator for records, which may be read long after it is gone.
const char* immortalName(const c10::FunctionSchema& schema);

/// Throws the error of a kernel that was abandoned half way.
void checkFinished(bool finished, const OpenRegStream& stream);

// docs:begin run-here
/// Runs `body` on the calling thread, in the stream's order, and passes on what it
/// throws. Tensors that it makes lie in device memory. `name` must never be freed.
/// Returns false if the body was not run: with orLaunchTry, on a busy stream.
template <class Body>
bool runOnThisThread(
    const char* name,
    unsigned how,
    const OpenRegStream& stream,
    Body& body) {
  std::exception_ptr error;
  bool finished = false;
  auto run = [&] {
    try {
      const at::AutoDispatchBelowADInplaceOrView below;
      const OutputScope outputs(stream);
      body();
    } catch (...) {
      error = std::current_exception();
    }
    finished = true;
  };
  const orLaunchConfig config{name, how};
  const c10::openreg::RunningHere here(stream);
  if (!OPENREG_IS_READY(orLaunchKernelEx(&config, stream, [&run] { run(); }))) {
    return false;
  }
  if (C10_UNLIKELY(error != nullptr)) {
    std::rethrow_exception(error);
  }
  checkFinished(finished, stream);
  return true;
}

/// Waits for the stream's earlier work first.
template <class Body>
void runHere(const char* name, const OpenRegStream& stream, Body body) {
  runOnThisThread(name, orLaunchHere, stream, body);
}

/// Work up to this many bytes touched is small: some ten microseconds.
inline constexpr size_t kSmallBytes = 64 * 1024;

/// What a queued kernel runs in: the launching thread's number of threads, and
/// below autograd. What it throws, the launch having checked the arguments, can
/// only be the fault of the data: a device-side assert.
template <class Body>
struct Queued {
  Body body;
  int threads = at::get_num_threads();

  void operator()() {
    c10::openreg::useThreads(threads);
    const at::AutoDispatchBelowADInplaceOrView below;
    try {
      body();
    } catch (const c10::Error& error) {
      orKernelFail(orErrorAssert, error.what_without_backtrace());
    }
  }
};

/// Queues `body`, or runs it at once if it is small and the stream idle. The body
/// holds aliases made by aliasForLaunch(); its outputs exist already.
template <class Body>
void launch(
    const char* name,
    const OpenRegStream& stream,
    size_t bytes,
    Body body) {
  const orLaunchConfig config{
      name, bytes <= kSmallBytes ? orLaunchSmall : orLaunchDefault};
  OPENREG_CHECK(
      orLaunchKernelEx(&config, stream, Queued<Body>{std::move(body)}));
}
// docs:end run-here

/// Runs any operator that has a CPU kernel, on device memory. Made once per
/// operator and layout, so that a call finds everything prepared.
class Executor final : public c10::OperatorKernel {
 public:
  /// `key`: what it is registered for; `kernel`: the same layout on the CPU.
  explicit Executor(
      const c10::FunctionSchema& schema,
      c10::DispatchKey key = c10::DispatchKey::PrivateUse1,
      c10::DispatchKey kernel = c10::DispatchKey::CPU);

  void operator()(
      const c10::OperatorHandle& op,
      c10::DispatchKeySet keys,
      torch::jit::Stack* stack);

 private:
  c10::IValue toCpu(AliasFrame& frame, const c10::IValue& value) const;

  const char* name_;
  c10::DispatchKeySet kernel_;
  FallbackCount& waits_;
  size_t arguments_;
  std::vector<size_t> outputs_; // places of arguments the kernel writes to
  std::optional<size_t> generator_;
  DeviceCheck devices_;
};

/// The same for an operator that nobody prepared for: the fallback for all
/// namespaces.
void wrapper_cpu_fallback(
    const c10::OperatorHandle& op,
    torch::jit::Stack* stack);

} // namespace at::native::openreg
