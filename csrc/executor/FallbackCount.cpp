#include "executor/FallbackCount.h"

#include "runtime/OpenRegSyncDebug.h"
#include "runtime/OpenRegTrace.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <c10/util/Exception.h>
#include <c10/util/env.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

namespace at::native::openreg {
namespace {

enum class Policy { Allow, Warn, Error };

// OPENREG_FALLBACK: what happens when an operator makes the host wait: nothing
// (`allow`), a warning once per operator (`warn`) or an error (`error`); see
// [operators](operators.md#calls-that-wait). Default: `allow`.
Policy readPolicy() {
  const auto value = c10::utils::get_env("OPENREG_FALLBACK");
  if (!value || *value == "allow") {
    return Policy::Allow;
  }
  if (*value == "warn") {
    return Policy::Warn;
  }
  TORCH_CHECK(
      *value == "error",
      "OPENREG_FALLBACK is '",
      *value,
      "', but must be allow, warn or error");
  return Policy::Error;
}

Policy policy() {
  static const Policy read = readPolicy();
  return read;
}

// Whether an operator waits on a GPU, too, because its result or the shape of its
// result depends on data of the device.
bool alwaysWaits(const char* name) {
  const auto op =
      c10::Dispatcher::singleton().findOp(torch::jit::parseName(name));
  return op &&
      (op->hasTag(at::Tag::dynamic_output_shape) ||
       op->hasTag(at::Tag::data_dependent_output));
}

/// What is said of an operator's calls.
struct Words {
  const char* suffix; // in the report
  const char* warning;
  const char* refusal;
};

const Words& wordsFor(FallbackKind kind) {
  static constexpr Words kWaits{
      "",
      " waits for its stream on openreg: it has no queued form",
      " has no queued form on openreg and would wait for its stream"};
  static constexpr Words kFirstCall{
      " (first call of its kind)",
      " waits for its stream on openreg, because it is called for the first "
      "time with such dtypes or shapes; later calls are queued",
      ""};
  static constexpr Words kStaysHere{
      " (not in the device process)",
      " does not run in openreg's device process: it cannot cross to there",
      " cannot cross to openreg's device process and would run in this one"};
  return kind == FallbackKind::Waits    ? kWaits
      : kind == FallbackKind::FirstCall ? kFirstCall
                                        : kStaysHere;
}

struct Counts {
  std::mutex mutex;
  std::map<
      std::pair<std::string_view, FallbackKind>,
      std::unique_ptr<FallbackCount>>
      byName;
};

Counts& counts() {
  static auto* all = new Counts;
  return *all;
}

} // namespace

FallbackCount& FallbackCount::of(const char* name, FallbackKind kind) {
  const std::lock_guard lock(counts().mutex);
  auto& count = counts().byName[{name, kind}];
  if (!count) {
    count.reset(new FallbackCount(name, kind));
  }
  return *count;
}

bool FallbackCount::isWatched() {
  using namespace c10::openreg;
  return policy() == Policy::Error ||
      get_sync_debug_mode() != SyncDebugMode::Disabled || isTraced();
}

void FallbackCount::noteFirst() const {
  if (policy() == Policy::Warn) {
    TORCH_WARN(name_, wordsFor(kind_).warning, " (OPENREG_FALLBACK=warn)");
  }
}

void FallbackCount::judge(orStream_t stream) const {
  if (kind_ == FallbackKind::FirstCall) {
    return;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      policy() != Policy::Error,
      name_,
      wordsFor(kind_).refusal,
      ", which OPENREG_FALLBACK=error forbids; with allow or warn it runs");
  if (kind_ == FallbackKind::Waits && alwaysWaits(name_)) {
    c10::openreg::noteSynchronization(stream);
  }
}

std::vector<FallbackCount::Entry> FallbackCount::report() {
  std::vector<Entry> entries;
  const std::lock_guard lock(counts().mutex);
  for (const auto& [key, count] : counts().byName) {
    if (const uint64_t calls = count->calls_.load()) {
      entries.push_back(
          {count->name_ + std::string(wordsFor(count->kind_).suffix), calls});
    }
  }
  std::stable_sort(
      entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
        return a.calls > b.calls;
      });
  return entries;
}

void FallbackCount::reset() {
  const std::lock_guard lock(counts().mutex);
  for (const auto& [key, count] : counts().byName) {
    count->calls_.store(0);
  }
}

} // namespace at::native::openreg
