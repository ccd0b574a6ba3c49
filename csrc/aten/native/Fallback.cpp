#include "aten/native/Fallback.h"

#include "runtime/OpenRegSyncDebug.h"

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

// OPENREG_FALLBACK: what becomes of operators that make the host wait: `allow`, `warn`
// once each, or `error`; see [operators](operators.md#who-registers-what). Default:
// `allow`.
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

// Whether an operator waits on a GPU, too: because its result, or the shape of its
// result, is data of the device.
bool alwaysWaits(const char* name) {
  const auto op =
      c10::Dispatcher::singleton().findOp(torch::jit::parseName(name));
  return op &&
      (op->hasTag(at::Tag::dynamic_output_shape) ||
       op->hasTag(at::Tag::data_dependent_output));
}

struct Counts {
  std::mutex mutex;
  std::map<std::string_view, std::unique_ptr<FallbackCount>> byName;
};

Counts& counts() {
  static auto* all = new Counts;
  return *all;
}

} // namespace

FallbackCount& FallbackCount::of(const char* name) {
  const std::lock_guard lock(counts().mutex);
  auto& count = counts().byName[name];
  if (!count) {
    count.reset(new FallbackCount(name));
  }
  return *count;
}

bool FallbackCount::isWatched() {
  using namespace c10::openreg;
  return policy() == Policy::Error ||
      get_sync_debug_mode() != SyncDebugMode::Disabled;
}

void FallbackCount::noteFirst() const {
  if (policy() == Policy::Warn) {
    TORCH_WARN(
        name_,
        " waits for its stream on openreg: it has no queued form "
        "(OPENREG_FALLBACK=warn)");
  }
}

void FallbackCount::judge() const {
  TORCH_CHECK_NOT_IMPLEMENTED(
      policy() != Policy::Error,
      name_,
      " has no queued form on openreg and would wait for its stream, which "
      "OPENREG_FALLBACK=error forbids; with allow or warn it runs");
  if (alwaysWaits(name_)) {
    c10::openreg::noteSynchronization();
  }
}

std::vector<FallbackCount::Entry> FallbackCount::report() {
  std::vector<Entry> entries;
  const std::lock_guard lock(counts().mutex);
  for (const auto& [name, count] : counts().byName) {
    if (const uint64_t calls = count->calls_.load()) {
      entries.push_back({std::string(name), calls});
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
  for (const auto& [name, count] : counts().byName) {
    count->calls_.store(0);
  }
}

} // namespace at::native::openreg
