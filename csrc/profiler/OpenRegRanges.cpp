#include "profiler/OpenRegRanges.h"

#include <ATen/record_function.h>
#include <torch/csrc/profiler/util.h>

namespace c10::openreg::profiler {
namespace {

/// An operator's range, open as long as the operator runs.
struct Range final : at::ObserverContext {
  explicit Range(const std::string& name) {
    if (record.isActive()) {
      record.before(name);
    }
  }
  at::RecordFunction record{at::RecordScope::USER_SCOPE};
};

// As emit_nvtx() words it.
template <bool withSizes>
std::unique_ptr<at::ObserverContext> open(const at::RecordFunction& op) {
  using torch::profiler::impl::inputSizes, torch::profiler::impl::shapesToStr;
  std::string name = op.name();
  if (op.seqNr() >= 0) {
    name += ", seq = " + std::to_string(op.seqNr());
  }
  if (withSizes) {
    name += ", sizes = " + shapesToStr(inputSizes(op));
  }
  return std::make_unique<Range>(name);
}

void close(const at::RecordFunction& /*op*/, at::ObserverContext* /*range*/) {
  // The range ends with its object.
}

} // namespace

uint64_t emitRanges(bool withSizes) {
  return at::addThreadLocalCallback(
      at::RecordFunctionCallback(withSizes ? &open<true> : &open<false>, &close)
          .needsInputs(withSizes)
          .scopes(
              {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

void stopRanges(uint64_t handle) {
  at::removeCallback(handle);
}

} // namespace c10::openreg::profiler
