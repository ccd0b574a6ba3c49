#include "remote/Settings.h"

#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include <iterator>

namespace c10::openreg::remote {
namespace {

enum : uint32_t {
  kDeterministic = 1,
  kDeterministicWarns = 2,
  kFillsMemory = 4,
  kMkldnn = 8,
  kGradMode = 16, // of the thread: what a kernel keeps depends on it
};
constexpr uint32_t kPrecisionShift = 8;

} // namespace

uint32_t currentSwitches() {
  const at::Context& context = at::globalContext();
  return (context.deterministicAlgorithms() ? kDeterministic : 0u) |
      (context.deterministicAlgorithmsWarnOnly() ? kDeterministicWarns : 0u) |
      (context.deterministicFillUninitializedMemory() ? kFillsMemory : 0u) |
      (context.userEnabledMkldnn() ? kMkldnn : 0u) |
      (c10::GradMode::is_enabled() ? kGradMode : 0u) |
      static_cast<uint32_t>(context.float32MatmulPrecision())
      << kPrecisionShift;
}

void applySwitches(uint32_t switches) {
  if (switches == currentSwitches()) {
    return;
  }
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(
      (switches & kDeterministic) != 0, (switches & kDeterministicWarns) != 0);
  context.setDeterministicFillUninitializedMemory(
      (switches & kFillsMemory) != 0);
  context.setUserEnabledMkldnn((switches & kMkldnn) != 0);
  c10::GradMode::set_enabled((switches & kGradMode) != 0);
  constexpr const char* kPrecisions[] = {"highest", "high", "medium"};
  const uint32_t precision = switches >> kPrecisionShift;
  if (precision < std::size(kPrecisions)) {
    context.setFloat32MatmulPrecision(kPrecisions[precision]);
  }
}

} // namespace c10::openreg::remote
