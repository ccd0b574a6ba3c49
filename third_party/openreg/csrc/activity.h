// Recording of activities. When tracing is off, each place that could record
// costs one load.
//
// Threads: any.
#pragma once

#include "openreg/activity.h"

#include <atomic>

namespace openreg::activity {

extern std::atomic<unsigned> enabledKinds; // sum of orActivityKind

inline bool anyEnabled() {
  return enabledKinds.load(std::memory_order_relaxed) != 0;
}

inline bool enabled(orActivityKind kind) {
  return (enabledKinds.load(std::memory_order_relaxed) & kind) != 0;
}

/// What ties the work of an API call to the call.
struct Correlation {
  uint64_t id = 0;
  uint64_t external = 0;
};

/// That of the API call which the thread is in.
Correlation currentCorrelation();

/// Keeps a record; `thread` is filled in.
void record(orActivityRecord record);

/// Records the API call that it is opened in.
class ApiCall {
 public:
  explicit ApiCall(const char* name) : name_(anyEnabled() ? name : nullptr) {
    if (name_) [[unlikely]] {
      begin();
    }
  }
  ~ApiCall() {
    if (name_) [[unlikely]] {
      end();
    }
  }
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

 private:
  void begin();
  void end();

  const char* const name_; // nullptr: tracing is off
  uint64_t start_ = 0;
  uint64_t outer_ = 0;
};

} // namespace openreg::activity
