#include "aten/OpenRegExecutor.h"

#include "aten/native/Executor.h"

#include <torch/library.h>

#include <memory>

namespace at::openreg {
namespace {

// docs:begin register-executor
// Without a registration of its own an operator would get PyTorch's composite
// kernel, if it has one, before the global fallback: that works, but calls several
// operators in place of one.
bool wantsExecutor(const c10::OperatorHandle& op) {
  return op.operator_name().name.starts_with("aten::") &&
      op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
      !op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
}

torch::Library* registerAll() {
  auto* library = new torch::Library(
      torch::Library::IMPL,
      "aten",
      c10::DispatchKey::PrivateUse1,
      __FILE__,
      __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (op && wantsExecutor(*op)) {
      library->impl(
          c10::toString(name).c_str(),
          torch::CppFunction::makeFromBoxedFunctor(
              std::make_unique<native::openreg::Executor>(op->schema())));
    }
  }
  return library;
}
// docs:end register-executor

} // namespace

void registerExecutor() {
  // Never destroyed: kernels may be called until the process is gone.
  [[maybe_unused]] static const torch::Library* library = registerAll();
}

} // namespace at::openreg
