#include "aten/native/Fallback.h"

#include <c10/util/Exception.h>
#include <c10/util/env.h>

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

bool FallbackCount::forbidden() {
  return policy() == Policy::Error;
}

void FallbackCount::noteFirst() const {
  if (policy() == Policy::Warn) {
    TORCH_WARN(
        name_,
        " waits for its stream on openreg: it has no queued form "
        "(OPENREG_FALLBACK=warn)");
  }
}

void FallbackCount::refuse() const {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      name_,
      " has no queued form on openreg and would wait for its stream, which "
      "OPENREG_FALLBACK=error forbids; with allow or warn it runs");
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
