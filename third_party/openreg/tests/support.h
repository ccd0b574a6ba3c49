// What the tests share: owners of runtime objects, a gate to hold a stream, and
// children to test what ends a process.
#pragma once

#include "openreg.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace openreg::testing {

/// A created stream, destroyed at the end of the scope.
class Stream {
 public:
  explicit Stream(unsigned flags = orStreamNonBlocking, int priority = 0) {
    EXPECT_EQ(orStreamCreateWithPriority(&stream_, flags, priority), orSuccess);
  }
  ~Stream() {
    orStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator orStream_t() const {
    return stream_;
  }

 private:
  orStream_t stream_ = nullptr;
};

/// A created event, destroyed at the end of the scope.
class Event {
 public:
  explicit Event(unsigned flags = orEventDisableTiming) {
    EXPECT_EQ(orEventCreateWithFlags(&event_, flags), orSuccess);
  }
  ~Event() {
    orEventDestroy(event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator orEvent_t() const {
    return event_;
  }

 private:
  orEvent_t event_ = nullptr;
};

/// Device memory of the current device, freed at the end of the scope.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    void* memory = nullptr;
    EXPECT_EQ(orMalloc(&memory, count * sizeof(T)), orSuccess);
    data_ = static_cast<T*>(memory);
  }
  ~DeviceArray() {
    orFree(data_);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const {
    return data_;
  }
  /// Where kernels find the elements.
  T* kernel() const {
    return static_cast<T*>(orKernelPointer(data_));
  }
  size_t bytes() const {
    return count_ * sizeof(T);
  }
  /// The elements, after all work of the default stream.
  std::vector<T> read() const {
    std::vector<T> host(count_);
    EXPECT_EQ(
        orMemcpy(host.data(), data_, bytes(), orMemcpyDeviceToHost), orSuccess);
    return host;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

/// Pinned host memory, freed at the end of the scope.
template <class T>
class PinnedArray {
 public:
  PinnedArray(size_t count, T value) : count_(count) {
    void* memory = nullptr;
    EXPECT_EQ(orMallocHost(&memory, count * sizeof(T)), orSuccess);
    data_ = static_cast<T*>(memory);
    std::fill_n(data_, count, value);
  }
  ~PinnedArray() {
    orFreeHost(data_);
  }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;

  T* data() const {
    return data_;
  }
  T& operator[](size_t i) const {
    return data_[i];
  }
  size_t bytes() const {
    return count_ * sizeof(T);
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

/// Holds a stream busy until opened; opens itself at the end of the scope, so
/// that a failed assertion cannot hang the test.
class Gate {
 public:
  explicit Gate(orStream_t stream) {
    EXPECT_EQ(
        orLaunchKernel(stream, [open = future_] { open.wait(); }), orSuccess);
  }
  ~Gate() {
    open();
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() {
    if (!opened_) {
      opened_ = true;
      promise_.set_value();
    }
  }

 private:
  bool opened_ = false;
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

inline std::string lastDetail() {
  return orGetLastErrorDetail();
}

/// Whether the sentence of the last error mentions `part`.
inline ::testing::AssertionResult detailHas(const std::string& part) {
  const std::string detail = lastDetail();
  if (detail.find(part) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
      << "'" << detail << "' does not mention '" << part << "'";
}

inline orStream_t defaultStream(int device = 0) {
  orStream_t stream = nullptr;
  EXPECT_EQ(orDeviceGetDefaultStream(&stream, device), orSuccess);
  return stream;
}

/// Queues kernels until the queue takes no more and returns the reason. Called
/// from a kernel of `stream`, which keeps the queue from draining meanwhile.
inline orError_t fillQueue(orStream_t stream) {
  constexpr int kMoreThanAnyQueueHolds = 100'000;
  for (int i = 0; i < kMoreThanAnyQueueHolds; ++i) {
    const orError_t error = orLaunchKernel(stream, [] {});
    if (error != orSuccess) {
      return error;
    }
  }
  return orSuccess;
}

/// Whether the suite runs under a given OPENREG_SCHEDULE.
inline bool scheduleIs(const std::string& policy) {
  const char* value = std::getenv("OPENREG_SCHEDULE");
  return policy == (value ? value : "auto");
}

/// Runs `body` in a new process with the given variables set and expects it to
/// exit with 0. `body` returns whether all went well.
#define EXPECT_CHILD_SUCCEEDS(body) \
  EXPECT_EXIT(std::exit((body)() ? 0 : 1), ::testing::ExitedWithCode(0), "")

// Children are started afresh instead of forked: a forked child of a process
// that used the runtime may not use it. Set when the tests start, because
// GoogleTest's own static initialisation comes after this one.
class ChildrenStartAfresh : public ::testing::Environment {
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};
inline auto* const kChildrenStartAfresh =
    ::testing::AddGlobalTestEnvironment(new ChildrenStartAfresh);

/// Calls `call`, which should wait for a stream that `gate` holds, and opens
/// the gate once the calling thread sleeps in it. Returns whether it waited.
template <class Call>
bool waitsForGate(Gate& gate, Call&& call) {
  std::atomic<bool> calling{false};
  std::atomic<bool> returned{false};
  bool waited = false;
  const std::string path =
      "/proc/self/task/" + std::to_string(gettid()) + "/stat";
  std::thread opener([&] {
    // A short nap on a lock is no wait: it has to be seen asleep repeatedly.
    for (int naps = 0; !returned && naps < 20; std::this_thread::yield()) {
      std::string id, name, state;
      std::ifstream(path) >> id >> name >> state;
      naps = calling && state == "S" ? naps + 1 : 0;
    }
    waited = !returned;
    gate.open();
  });
  calling = true;
  call();
  returned = true;
  opener.join();
  return waited;
}

/// Breaks the current device with orErrorAssert and resets it at the end of the
/// scope.
class BrokenDevice {
 public:
  static constexpr const char* kMessage = "broken on purpose";

  BrokenDevice() {
    int device = 0;
    EXPECT_EQ(orGetDevice(&device), orSuccess);
    auto fail = [] { orKernelFail(orErrorAssert, kMessage); };
    EXPECT_EQ(orLaunchKernel(defaultStream(device), fail), orSuccess);
    EXPECT_EQ(orDeviceSynchronize(), orErrorAssert);
  }
  ~BrokenDevice() {
    EXPECT_EQ(orDeviceReset(), orSuccess);
  }
  BrokenDevice(const BrokenDevice&) = delete;
  BrokenDevice& operator=(const BrokenDevice&) = delete;
};

/// An address as sentences give it.
inline std::string hex(const void* pointer) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%p", pointer);
  return buffer;
}

/// For the end of a child: whether no EXPECT failed. Says which did, because
/// GoogleTest itself is mute in a child.
inline bool childWentWell() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const ::testing::TestResult& result = *test->result();
  for (int i = 0; i < result.total_part_count(); ++i) {
    const ::testing::TestPartResult& part = result.GetTestPartResult(i);
    if (part.failed()) {
      std::fprintf(stderr, "line %d: %s\n", part.line_number(), part.message());
    }
  }
  return result.Passed();
}

/// EXPECT is mute in a child: this says what failed, and ends the child.
#define CHILD_REQUIRE(condition)           \
  do {                                     \
    if (!(condition)) {                    \
      std::fprintf(                        \
          stderr,                          \
          "line %d: %s; last error: %s\n", \
          __LINE__,                        \
          #condition,                      \
          orGetLastErrorDetail());         \
      std::_Exit(1);                       \
    }                                      \
  } while (false)

} // namespace openreg::testing
