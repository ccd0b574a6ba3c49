#include "sanitizer/Stacks.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>

#include <array>
#include <mutex>

namespace c10::openreg::sanitizer {
namespace {

/// The stacks of the last forward operators, by the numbers that autograd gives them.
class ForwardStacks {
 public:
  using Stack = std::shared_ptr<torch::CapturedTraceback>;

  void keep(const Stack& stack) {
    const uint64_t number = at::sequence_number::peek();
    if (number == 0) {
      return;
    }
    Entry entry{number - 1, at::RecordFunction::currentThreadId(), stack};
    const std::lock_guard lock(mutex_);
    Entry& place = entries_[entry.number % entries_.size()];
    // A node is made before its kernel is launched: the first launch is its own.
    if (place.number != entry.number || place.thread != entry.thread) {
      std::swap(place, entry);
    }
  }

  Stack find(const torch::autograd::Node& node) {
    const std::lock_guard lock(mutex_);
    const Entry& entry = entries_[node.sequence_nr() % entries_.size()];
    return entry.number == node.sequence_nr() &&
            entry.thread == node.thread_id()
        ? entry.stack
        : nullptr;
  }

 private:
  struct Entry {
    uint64_t number = 0;
    uint64_t thread = 0;
    Stack stack;
  };
  std::mutex mutex_;
  std::array<Entry, 8192> entries_;
};

ForwardStacks& forwardStacks() {
  static auto* stacks = new ForwardStacks;
  return *stacks;
}

} // namespace

std::shared_ptr<const Stacks> Stacks::gather() {
  auto stacks = std::make_shared<Stacks>();
  stacks->here = torch::CapturedTraceback::gather(
      /*python=*/true, /*script=*/false, /*cpp=*/false);
  if (const auto node = torch::autograd::get_current_node()) {
    stacks->node = node->name();
    stacks->forward = forwardStacks().find(*node);
  } else if (c10::GradMode::is_enabled()) {
    forwardStacks().keep(stacks->here);
  }
  return stacks;
}

} // namespace c10::openreg::sanitizer
