#include "sanitizer/HostAccesses.h"

#include "executor/Launch.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace c10::openreg::sanitizer {
namespace {

using at::native::openreg::isOpenReg;
using at::native::openreg::listAccess;

std::atomic<HostObserver*> hostObserver{nullptr};

/// Which arguments of an operator are written to, if it touches their data at all.
struct ArgumentUse {
  bool computes = false;
  std::vector<bool> writes;
};

ArgumentUse useOf(const c10::OperatorHandle& op) {
  // They change what a tensor refers to, or only ask.
  static const std::unordered_set<std::string> kNoAccess = {
      "aten::set_",
      "aten::resize_",
      "aten::resize_as_",
      "aten::record_stream",
      "aten::is_pinned",
      "aten::_pin_memory",
      "aten::is_set_to",
      "aten::_has_same_storage_numel"};
  const c10::FunctionSchema& schema = op.schema();
  // If an operator calls others, only those others are seen.
  if (kNoAccess.contains(schema.name()) ||
      !(op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
        schema.name() == "aten::copy_")) {
    return {};
  }
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() && !result.alias_info()->isWrite()) {
      return {}; // a view
    }
  }
  ArgumentUse use{true, {}};
  for (const c10::Argument& argument : schema.arguments()) {
    use.writes.push_back(
        argument.alias_info() && argument.alias_info()->isWrite());
  }
  return use;
}

// A schema keeps its name where it is, so the pointer stands for the overload.
const ArgumentUse& useOf(const at::RecordFunction& call) {
  thread_local std::unordered_map<const char*, ArgumentUse> known;
  const auto [found, isNew] = known.try_emplace(call.name());
  if (isNew) {
    if (const auto name = call.operator_name()) {
      if (const auto op = c10::Dispatcher::singleton().findOp(*name);
          op && op->hasSchema()) {
        found->second = useOf(*op);
      }
    }
  }
  return found->second;
}

template <class Visit>
void visitTensors(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) {
      visit(value.toTensor());
    }
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      visit(tensor);
    }
  }
}

std::unique_ptr<at::ObserverContext> onCall(const at::RecordFunction& call) {
  HostObserver* observer = hostObserver.load();
  const ArgumentUse& use = useOf(call);
  if (!observer || !use.computes) {
    return nullptr;
  }
  std::vector<MemoryAccess> accesses;
  bool usesDevice = false;
  const auto inputs = call.inputs();
  for (size_t i = 0; i < inputs.size() && i < use.writes.size(); ++i) {
    visitTensors(inputs[i], [&](const at::Tensor& tensor) {
      if (isOpenReg(tensor)) {
        usesDevice = true; // and is work of a stream
      } else if (tensor.is_cpu() && tensor.layout() == c10::kStrided) {
        listAccess(tensor, use.writes[i], accesses);
      }
    });
  }
  if (!usesDevice && !accesses.empty()) {
    observer->onHostAccess(call.name(), accesses);
  }
  return nullptr;
}

} // namespace

HostAccesses::HostAccesses(HostObserver& observer) {
  hostObserver = &observer;
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&onCall).needsInputs(true).scopes(
          {at::RecordScope::FUNCTION}));
}

HostAccesses::~HostAccesses() {
  at::removeCallback(handle_);
  hostObserver = nullptr;
}

} // namespace c10::openreg::sanitizer
