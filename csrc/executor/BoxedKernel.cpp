#include "executor/BoxedKernel.h"

#include "executor/ArgumentTypes.h"
#include "executor/OperatorCall.h"
#include "runtime/OpenRegGuard.h"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace at::native::openreg {
namespace {

// docs:begin execute
void callBoxed(OperatorInfo& info, torch::jit::Stack* stack) {
  const size_t count = info.handle.schema().arguments().size();
  c10::SmallVector<Argument, 8> arguments;
  for (size_t place = 0; place < count; ++place) {
    arguments.push_back(argument(torch::jit::peek(*stack, place, count)));
  }
  Results results = callOperator(info, arguments);
  torch::jit::drop(*stack, count);
  std::move(results.begin(), results.end(), std::back_inserter(*stack));
}
// docs:end execute

/// What is known of an operator that nobody prepared for. Never freed: a graph may keep
/// calls of it.
OperatorInfo& infoOf(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static auto* known =
      new std::unordered_map<c10::OperatorName, std::unique_ptr<OperatorInfo>>;
  const std::lock_guard lock(mutex);
  auto& info = (*known)[op.operator_name()];
  if (!info) {
    info = std::make_unique<OperatorInfo>(
        op, c10::DispatchKey::PrivateUse1, c10::DispatchKey::CPU);
  }
  return *info;
}

} // namespace

void BoxedKernel::operator()(
    const c10::OperatorHandle& /*op*/,
    c10::DispatchKeySet /*keys*/,
    torch::jit::Stack* stack) {
  callBoxed(info_, stack);
}

void wrapper_cpu_fallback(
    const c10::OperatorHandle& op,
    torch::jit::Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
      "openreg runs ",
      op.operator_name(),
      " with its CPU kernel, but there is none; register one with "
      "torch.library.impl(\"",
      op.operator_name(),
      "\", \"cpu\") or, for openreg itself, \"openreg\"");
  callBoxed(infoOf(op), stack);
}

} // namespace at::native::openreg
