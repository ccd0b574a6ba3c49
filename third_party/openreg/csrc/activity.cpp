#include "activity.h"

#include "error.h"
#include "os.h"
#include "runtime.h"

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace openreg::activity {

std::atomic<unsigned> enabledKinds{0};

namespace {

thread_local std::vector<uint64_t> externalIds;
thread_local uint64_t correlationId = 0;
thread_local bool delivering = false;

std::atomic<uint64_t> lastCorrelationId{0};

// Records on their way to the user. Delivery happens outside the buffer's lock,
// because a callback may use the library.
class Buffer {
 public:
  bool enable(
      unsigned kinds,
      size_t capacity,
      orActivityCallback callback,
      void* userData) {
    std::lock_guard lock(mutex_);
    if (anyEnabled()) {
      return false;
    }
    capacity_ = capacity;
    callback_ = callback;
    userData_ = userData;
    enabledKinds.store(kinds);
    return true;
  }

  bool disable() {
    std::lock_guard lock(mutex_);
    return enabledKinds.exchange(0) != 0;
  }

  void add(const orActivityRecord& record) {
    std::unique_lock lock(mutex_);
    if (!enabled(record.kind)) {
      return;
    }
    // Nobody waits for a running callback here: it may be waiting for us.
    const bool deliverable = callback_ && !busy_;
    if (records_.size() >= capacity_ && !deliverable) {
      ++dropped_;
      return;
    }
    records_.push_back(record);
    while (deliverable && records_.size() >= capacity_) {
      deliver(lock, callback_, userData_);
    }
  }

  void flush(orActivityCallback callback, void* userData, size_t* dropped) {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return !busy_; });
    if (dropped) {
      *dropped = dropped_;
    }
    dropped_ = 0;
    if (!records_.empty()) {
      deliver(lock, callback, userData);
    }
  }

 private:
  void deliver(
      std::unique_lock<std::mutex>& lock,
      orActivityCallback callback,
      void* userData) {
    const auto records = std::exchange(records_, {});
    busy_ = delivering = true;
    lock.unlock();
    callback(records.data(), records.size(), userData);
    lock.lock();
    busy_ = delivering = false;
    idle_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable idle_;
  bool busy_ = false; // whether a callback runs
  std::vector<orActivityRecord> records_;
  size_t capacity_ = 0;
  size_t dropped_ = 0;
  orActivityCallback callback_ = nullptr;
  void* userData_ = nullptr;
};

// Never destroyed: workers may record until the process is gone.
Buffer& buffer() {
  static auto* const instance = new Buffer;
  return *instance;
}

uint64_t externalId() {
  return externalIds.empty() ? 0 : externalIds.back();
}

} // namespace

// What a callback launches is not recorded, or recording would never end.
Correlation currentCorrelation() {
  return delivering ? Correlation{} : Correlation{correlationId, externalId()};
}

void record(orActivityRecord record) {
  if (!delivering) {
    record.thread = os::threadId();
    buffer().add(record);
  }
}

void ApiCall::begin() {
  outer_ = std::exchange(correlationId, ++lastCorrelationId);
  start_ = os::now();
}

void ApiCall::end() {
  const uint64_t id = std::exchange(correlationId, outer_);
  if (enabled(orActivityRuntime)) {
    record({
        .kind = orActivityRuntime,
        .name = name_,
        .device = -1,
        .start = start_,
        .end = os::now(),
        .correlation = id,
        .externalCorrelation = externalId(),
    });
  }
}

} // namespace openreg::activity

using namespace openreg;
using namespace openreg::activity;

orError_t orActivityEnableTracing(
    unsigned int kinds,
    size_t capacity,
    orActivityCallback callback,
    void* userData) {
  return unrecordedApi("orActivityEnableTracing", [&](Runtime&) {
    if (kinds == 0 || (kinds & ~OPENREG_ACTIVITY_ALL) != 0) {
      return fail(
          orErrorInvalidValue,
          "kinds must be a sum of orActivityKind in [1, %u], but is %u",
          OPENREG_ACTIVITY_ALL,
          kinds);
    }
    if (capacity == 0) {
      return fail(orErrorInvalidValue, "capacity must be at least 1, but is 0");
    }
    if (!buffer().enable(kinds, capacity, callback, userData)) {
      return fail(
          orErrorNotPermitted,
          "tracing is enabled already; call orActivityDisableTracing() first");
    }
    return orSuccess;
  });
}

orError_t orActivityDisableTracing(void) {
  return unrecordedApi("orActivityDisableTracing", [](Runtime&) {
    return buffer().disable()
        ? orSuccess
        : fail(orErrorNotPermitted, "tracing is not enabled");
  });
}

orError_t orActivityFlush(
    orActivityCallback callback,
    void* userData,
    size_t* dropped) {
  return unrecordedApi("orActivityFlush", [&](Runtime&) {
    if (!callback) {
      return fail(orErrorInvalidValue, "callback must not be NULL");
    }
    if (delivering) {
      return fail(
          orErrorNotPermitted,
          "a callback that receives records may not ask for more");
    }
    buffer().flush(callback, userData, dropped);
    return orSuccess;
  });
}

orError_t orActivityPushExternalCorrelationId(uint64_t id) {
  return unrecordedApi("orActivityPushExternalCorrelationId", [&](Runtime&) {
    if (id == 0) {
      return fail(orErrorInvalidValue, "id must not be 0, which means none");
    }
    externalIds.push_back(id);
    return orSuccess;
  });
}

orError_t orActivityPopExternalCorrelationId(uint64_t* id) {
  return unrecordedApi("orActivityPopExternalCorrelationId", [&](Runtime&) {
    if (externalIds.empty()) {
      return fail(
          orErrorNotPermitted,
          "the thread has no external correlation id to pop");
    }
    if (id) {
      *id = externalIds.back();
    }
    externalIds.pop_back();
    return orSuccess;
  });
}
