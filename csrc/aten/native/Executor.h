// The one way into the device for operators: run now, or queue.
#pragma once

#include "aten/native/Alias.h"
#include "aten/native/DeviceCheck.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DispatchKeySet.h>

#include <exception>
#include <utility>

namespace at::native::openreg {

/// What CPU kernels are called with: below autograd and everything else.
inline constexpr c10::DispatchKeySet kCpuKernel(c10::DispatchKey::CPU);

/// The stream that work on a tensor goes to: its device's current one.
inline OpenRegStream streamOf(const TensorBase& tensor) {
  return c10::openreg::getCurrentOpenRegStream(tensor.device().index());
}

/// Throws the error of a kernel that was abandoned half way.
void checkFinished(bool finished, const OpenRegStream& stream);

// docs:begin run-here
/// Waits for the stream's earlier work, then runs `body` on the calling thread, in
/// the stream's order. What the body throws reaches the caller, and tensors that
/// it makes lie in device memory. `name` must never be freed.
template <class Body>
void runHere(const char* name, const OpenRegStream& stream, Body body) {
  std::exception_ptr error;
  bool finished = false;
  const auto run = [&] {
    try {
      const at::AutoDispatchBelowADInplaceOrView below;
      const OutputScope outputs(stream);
      body();
    } catch (...) {
      error = std::current_exception();
    }
    finished = true;
  };
  const orLaunchConfig config{name, orLaunchHere};
  OPENREG_CHECK(orLaunchKernelEx(&config, stream, [&run] { run(); }));
  if (error) {
    std::rethrow_exception(error);
  }
  checkFinished(finished, stream);
}

/// Queues `body`, or runs it at once if it is small and the stream idle. The body
/// holds aliases made by aliasForLaunch(); its outputs exist already. What it
/// throws breaks the device. `bytes` it touches tell whether it is small.
template <class Body>
void launch(
    const char* name,
    const OpenRegStream& stream,
    size_t bytes,
    Body body) {
  constexpr size_t kSmall = 64 * 1024; // some ten microseconds of work
  const orLaunchConfig config{
      name, bytes <= kSmall ? orLaunchSmall : orLaunchDefault};
  auto run = [body = std::move(body)]() mutable {
    const at::AutoDispatchBelowADInplaceOrView below;
    body();
  };
  OPENREG_CHECK(orLaunchKernelEx(&config, stream, std::move(run)));
}
// docs:end run-here

/// Runs any operator that has a CPU kernel, on device memory. Made once per
/// operator, so that a call finds everything prepared.
class Executor final : public c10::OperatorKernel {
 public:
  explicit Executor(const c10::FunctionSchema& schema);

  void operator()(
      const c10::OperatorHandle& op,
      c10::DispatchKeySet keys,
      torch::jit::Stack* stack);

 private:
  c10::IValue toCpu(AliasFrame& frame, const c10::IValue& value) const;

  const char* name_;
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
