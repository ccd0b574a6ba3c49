#include "aten/native/Planned.h"

#include <algorithm>

namespace at::native::openreg {
namespace {

thread_local PlannedScope* scope __attribute__((tls_model("initial-exec"))) =
    nullptr;

bool liesAsPlanned(const Tensor& planned, const Tensor& result) {
  return result.const_data_ptr() == planned.const_data_ptr() &&
      result.strides() == planned.strides();
}

} // namespace

PlannedScope::PlannedScope(const std::vector<Tensor>& outputs)
    : outer_(std::exchange(scope, this)) {
  for (const Tensor& output : outputs) {
    if (output.defined() && output.numel() > 0) {
      slots_.push_back({output.mutable_data_ptr(), output.nbytes()});
    }
  }
}

PlannedScope::~PlannedScope() {
  scope = outer_;
}

void* takePlanned(size_t bytes) {
  if (C10_LIKELY(!scope)) {
    return nullptr;
  }
  for (auto& [pointer, size] : scope->slots_) {
    if (size == bytes) {
      size = 0; // allocations of no bytes do not come here
      return pointer;
    }
  }
  return nullptr;
}

std::vector<PlannedSlot> takeAllPlanned() {
  std::vector<PlannedSlot> taken;
  if (scope) {
    for (PlannedSlot& slot : scope->slots_) {
      if (slot.bytes != 0) {
        taken.push_back(slot);
        slot.bytes = 0;
      }
    }
  }
  return taken;
}

bool isPlanned(const void* pointer) {
  return scope &&
      std::any_of(
             scope->slots_.begin(), scope->slots_.end(), [&](const auto& slot) {
               return slot.pointer == pointer;
             });
}

void settlePlanned(
    const std::vector<Tensor>& planned,
    const std::vector<Tensor>& results) {
  // First all clones: a result may lie in memory that is planned for another, or
  // in its own but in another order.
  std::vector<Tensor> elsewhere(planned.size());
  for (size_t i = 0; i < planned.size(); ++i) {
    if (planned[i].defined() && !liesAsPlanned(planned[i], results[i])) {
      elsewhere[i] = results[i].clone();
    }
  }
  for (size_t i = 0; i < planned.size(); ++i) {
    if (elsewhere[i].defined()) {
      planned[i].copy_(elsewhere[i]);
    }
  }
}

} // namespace at::native::openreg
