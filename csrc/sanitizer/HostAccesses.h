// Operators of the CPU, seen for the pinned memory that they use.
#pragma once

#include "runtime/OpenRegSubmit.h"

#include <ATen/record_function.h>

#include <vector>

namespace c10::openreg::sanitizer {

/// Who is told.
class HostObserver {
 public:
  virtual ~HostObserver() = default;
  virtual void onHostAccess(
      const char* name,
      const std::vector<MemoryAccess>& accesses) = 0;
};

/// While it lives, tells of each operator of the CPU what memory it reads and writes:
/// those that compute, not those that make views or call other operators.
///
/// Threads: the observer is called by any.
class HostAccesses {
 public:
  explicit HostAccesses(HostObserver& observer);
  ~HostAccesses();
  HostAccesses(const HostAccesses&) = delete;
  HostAccesses& operator=(const HostAccesses&) = delete;

 private:
  at::CallbackHandle handle_;
};

} // namespace c10::openreg::sanitizer
