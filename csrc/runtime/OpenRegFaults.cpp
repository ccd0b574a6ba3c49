#include "runtime/OpenRegFaults.h"

#include <stdexcept>

namespace c10::openreg {
namespace {

// Until the library is loaded there is no plan.
constexpr int kNone = 0;

} // namespace

constinit const int* detail::faultFlag = &kNone;

namespace {
const bool flagFound = orFaultGetFlag(&detail::faultFlag) == orSuccess;
} // namespace

orFault askFaultPlan(orFaultSite site, const char* name, int device, int rank) {
  orFault fault{};
  OPENREG_CHECK(orFaultAsk(site, name, device, rank, &fault));
  return fault;
}

void set_fault_plan(const std::string& text) {
  const orError_t status = orFaultPlan(text.c_str());
  if (status == orErrorInvalidValue) {
    const std::string what = orGetLastErrorDetail();
    orGetLastError();
    throw std::invalid_argument(what);
  }
  OPENREG_CHECK(status);
}

void clear_fault_plan() {
  OPENREG_CHECK(orFaultClear());
}

uint64_t fault_count(const std::string& kind) {
  unsigned long long count = 0;
  OPENREG_CHECK(orFaultCount(kind.c_str(), &count));
  return count;
}

} // namespace c10::openreg
