// Fault plans in the runtime, which asks them about allocations from the pool and knows
// what work writes. Free of c10, as its callers are.
//
// Threads: any; WithoutFaults is for the thread that makes it.
#pragma once

#include "runtime/OpenRegException.h"

#include <string>
#include <vector>

namespace c10::openreg {

namespace detail {
extern const int* faultFlag;
} // namespace detail

/// Whether a plan is in force: the one branch that a place costs without one.
inline bool faultsPlanned() noexcept {
  return __atomic_load_n(detail::faultFlag, __ATOMIC_RELAXED) != 0;
}

/// What the plan decides for a place that libopenreg does not see.
orFault askFaultPlan(
    orFaultSite site,
    const char* name,
    int device,
    int rank = -1);

/// While it lives, plans do not apply to the calling thread: the plan has been asked
/// about the larger place that this work is part of.
class [[nodiscard]] WithoutFaults {
 public:
  WithoutFaults() noexcept {
    OPENREG_CHECK_WARN(orThreadExchangeFaults(&enabled_));
  }
  ~WithoutFaults() {
    OPENREG_CHECK_WARN(orThreadExchangeFaults(&enabled_));
  }
  WithoutFaults(const WithoutFaults&) = delete;
  WithoutFaults& operator=(const WithoutFaults&) = delete;

 private:
  int enabled_ = 0; // then the setting before
};

// --- for Python ---

/// Puts a plan into force. Throws std::invalid_argument, a ValueError in Python, if it
/// is malformed.
void set_fault_plan(const std::string& text);
void clear_fault_plan();
/// How often a kind of fault happened, or was asked for at a place.
uint64_t fault_count(const std::string& kind);

} // namespace c10::openreg
