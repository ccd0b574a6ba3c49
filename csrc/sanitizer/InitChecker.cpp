#include "sanitizer/InitChecker.h"

#include <algorithm>
#include <unordered_set>

namespace c10::openreg::sanitizer {
namespace {

using Names = std::unordered_set<std::string>;

// They pass on what they read, changed or not, and look at nothing.
const Names kCopies = {
    "copy",
    "peer copy",
    "aten::_copy_from",
    "aten::cat",
    "aten::clone",
    "aten::copy_",
    "aten::index_select",
    "aten::repeat",
    "aten::select_backward",
    "aten::slice_backward",
    "aten::stack",
    "aten::_foreach_copy_"};

// With beta=0 their first argument is not looked at.
const Names kMayIgnoreInput = {
    "aten::addbmm",
    "aten::addmm",
    "aten::addmv",
    "aten::addr",
    "aten::baddbmm",
    "aten::_addmm_activation"};

// Of those whose names end as if they changed their argument: what they overwrite, or
// leave as it was, is not looked at.
const Names kOverwrite = {
    "aten::_foreach_zero_",
    "aten::_index_put_impl_",
    "aten::bernoulli_",
    "aten::cauchy_",
    "aten::exponential_",
    "aten::fill_",
    "aten::geometric_",
    "aten::index_copy_",
    "aten::index_fill_",
    "aten::index_put_",
    "aten::log_normal_",
    "aten::masked_fill_",
    "aten::masked_scatter_",
    "aten::normal_",
    "aten::put_",
    "aten::random_",
    "aten::resize_",
    "aten::scatter_",
    "aten::set_",
    "aten::uniform_",
    "aten::zero_"};

bool computes(const std::string& name) {
  return name.starts_with("aten::") && !kCopies.contains(name);
}

bool changesInPlace(const std::string& name) {
  return name.ends_with("_") && !kOverwrite.contains(name);
}

} // namespace

std::optional<Range> InitChecker::findUnwritten(
    const std::string& name,
    std::span<const MemoryUse> uses) const {
  const bool toHost =
      std::any_of(uses.begin(), uses.end(), [](const MemoryUse& use) {
        return use.writes && !use.onDevice;
      });
  if (!computes(name) && !(name == "copy" && toHost)) {
    return std::nullopt;
  }
  const bool changes = changesInPlace(name);
  bool ignoresInput = kMayIgnoreInput.contains(name);
  for (const MemoryUse& use : uses) {
    if (!use.onDevice || (use.writes && !changes)) {
      continue;
    }
    if (!use.writes && ignoresInput) {
      ignoresInput = false; // the others are looked at
      continue;
    }
    if (const auto found = unwritten_.findIn(use.range)) {
      return found;
    }
  }
  return std::nullopt;
}

// If one range is copied to another, byte by byte. Else only what nobody has written any
// part of stays unwritten.
void InitChecker::passOn(std::span<const MemoryUse> uses) {
  const auto size = [](const Range& range) { return range.end - range.begin; };
  if (uses.size() == 2 && !uses[0].writes && uses[1].writes &&
      size(uses[0].range) == size(uses[1].range)) {
    unwritten_.copy(uses[0].range, uses[1].range.begin);
    return;
  }
  bool anyRead = false, anyWritten = false;
  for (const MemoryUse& use : uses) {
    anyRead |= !use.writes;
    anyWritten |= !use.writes && !unwritten_.containsAll(use.range);
  }
  writeAll(uses);
  if (anyRead && !anyWritten) {
    for (const MemoryUse& use : uses) {
      if (use.writes && use.onDevice) {
        unwritten_.add(use.range);
      }
    }
  }
}

void InitChecker::writeAll(std::span<const MemoryUse> uses) {
  for (const MemoryUse& use : uses) {
    if (use.writes) {
      const uintptr_t end = std::max(use.range.end, use.range.begin + use.span);
      unwritten_.remove({use.range.begin, end});
    }
  }
}

std::optional<Range> InitChecker::run(
    const std::string& name,
    std::span<const MemoryUse> uses) {
  const auto found = findUnwritten(name, uses);
  if (kCopies.contains(name) && !found) {
    passOn(uses);
  } else {
    writeAll(uses);
  }
  if (found) {
    for (const MemoryUse& use : uses) {
      unwritten_.remove(use.range);
    }
  }
  return found;
}

} // namespace c10::openreg::sanitizer
