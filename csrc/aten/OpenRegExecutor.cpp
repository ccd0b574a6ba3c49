#include "aten/OpenRegExecutor.h"

#include "executor/BoxedKernel.h"

#include "runtime/OpenRegLibrary.h"

#include <memory>
#include <utility>
#include <vector>

namespace at::openreg {
namespace {

// docs:begin register-executor
// Each layout of the device's tensors has a key of its own, as it has on the CPU.
constexpr std::pair<c10::DispatchKey, c10::DispatchKey> kLayouts[] = {
    {c10::DispatchKey::PrivateUse1, c10::DispatchKey::CPU},
    {c10::DispatchKey::SparsePrivateUse1, c10::DispatchKey::SparseCPU},
    {c10::DispatchKey::SparseCsrPrivateUse1, c10::DispatchKey::SparseCsrCPU},
    {c10::DispatchKey::QuantizedPrivateUse1, c10::DispatchKey::QuantizedCPU},
    {c10::DispatchKey::NestedTensorPrivateUse1,
     c10::DispatchKey::NestedTensorCPU},
};

// Composite kernels that are wrong for a device they do not know: one refuses it, the
// other chooses a kernel by device instead of calling the dispatcher.
bool wantsCpu(const c10::OperatorHandle& op) {
  return op.operator_name() == c10::OperatorName("aten::mode", "values") ||
      op.operator_name() == c10::OperatorName("aten::conj_physical_", "");
}

// Without a registration of its own an operator would get PyTorch's composite
// kernel, if it has one, before the global fallback: that works, but calls several
// operators in place of one.
void registerLayout(
    const std::vector<c10::OperatorHandle>& operators,
    c10::DispatchKey key,
    c10::DispatchKey cpu) {
  // Never destroyed: kernels may be called until the process is gone.
  auto* library =
      new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  for (const c10::OperatorHandle& op : operators) {
    if ((op.hasKernelForDispatchKey(cpu) || wantsCpu(op)) &&
        !op.hasKernelForDispatchKey(key)) {
      library->impl(
          c10::toString(op.operator_name()).c_str(),
          torch::CppFunction::makeFromBoxedFunctor(
              std::make_unique<native::openreg::BoxedKernel>(op, key, cpu)));
    }
  }
}

bool registerAll() {
  std::vector<c10::OperatorHandle> operators;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (op && name.name.starts_with("aten::")) {
      operators.push_back(*op);
    }
  }
  for (const auto& [key, cpu] : kLayouts) {
    registerLayout(operators, c10::openreg::servedKey(key), cpu);
  }
  return true;
}
// docs:end register-executor

} // namespace

void registerExecutor() {
  [[maybe_unused]] static const bool once = registerAll();
}

} // namespace at::openreg
