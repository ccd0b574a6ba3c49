#include "aten/OpenRegStrict.h"

#include "aten/native/Strict.h"

#include "runtime/OpenRegDeviceType.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace at::openreg {
namespace {

using native::openreg::Refusal;
using Rows = std::vector<const Refusal*>;

// docs:begin strict-kernel
/// Stands between autograd and all kernels of one operator, whatever their device.
///
/// Threads: any.
class StrictKernel final : public c10::OperatorKernel {
 public:
  explicit StrictKernel(Rows rows) : rows_(std::move(rows)) {}

  void operator()(
      const c10::OperatorHandle& op,
      c10::DispatchKeySet keys,
      torch::jit::Stack* stack) {
    if (keys.has_backend(c10::toBackendComponent(c10::openreg::kKey))) {
      const size_t count = op.schema().arguments().size();
      const auto arguments = torch::jit::last(*stack, count);
      // Tensors of two devices are refused first, by the operator.
      const bool isMixed = keys.has_backend(c10::BackendComponent::CPUBit);
      for (const Refusal* row : rows_) {
        if (!isMixed || row->kind == native::openreg::RefusalKind::Alert) {
          native::openreg::refuse(
              *row, op.operator_name(), {arguments.data(), arguments.size()});
        }
      }
    }
    op.redispatchBoxed(
        keys &
            c10::DispatchKeySet(
                c10::DispatchKeySet::FULL_AFTER,
                c10::DispatchKey::BackendSelect),
        stack);
  }

 private:
  Rows rows_;
};
// docs:end strict-kernel

std::map<std::string_view, Rows> rowsOfNames() {
  std::map<std::string_view, Rows> rows;
  for (const Refusal& row : native::openreg::refusals()) {
    std::string_view rest = row.operators;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(' '), rest.size());
      rows[rest.substr(0, end)].push_back(&row);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return rows;
}

// BackendSelect is the last key before those of devices, and part of every call.
bool registerRefusals() {
  constexpr std::string_view kNamespace = "aten::";
  auto* library = new torch::Library(
      torch::Library::IMPL,
      "aten",
      c10::DispatchKey::BackendSelect,
      __FILE__,
      __LINE__);
  const auto named = rowsOfNames();
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !name.name.starts_with(kNamespace)) {
      continue;
    }
    const std::string full = c10::toString(name).substr(kNamespace.size());
    // The same for an operator without overloads.
    const std::set keys{name.name.substr(kNamespace.size()), full};
    Rows rows;
    for (const std::string& key : keys) {
      if (const auto found = named.find(key); found != named.end()) {
        rows.insert(rows.end(), found->second.begin(), found->second.end());
      }
    }
    if (!rows.empty()) {
      library->impl(
          full.c_str(),
          torch::CppFunction::makeFromBoxedFunctor(
              std::make_unique<StrictKernel>(std::move(rows))));
    }
  }
  return true;
}

} // namespace

void registerStrict() {
  [[maybe_unused]] static const bool once =
      native::openreg::strict() && registerRefusals();
}

} // namespace at::openreg
