#include "executor/BoxedKernel.h"

#include "executor/ArgumentTypes.h"
#include "executor/OperatorCall.h"
#include "runtime/OpenRegGuard.h"

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
      "\", \"cpu\") or, for the device itself, \"",
      c10::DeviceTypeName(c10::openreg::kDeviceType, /*lower_case=*/true),
      '"');
  // Not kept: the operator may be gone before its next call, and another one have its
  // name.
  OperatorInfo info(op, c10::openreg::kKey, c10::DispatchKey::CPU);
  info.isOfOneCall = true;
  callBoxed(info, stack);
}

} // namespace at::native::openreg
