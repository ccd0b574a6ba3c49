// The environment variables that change how work runs. Each is read once, at
// first use, so every test uses a process of its own.
#include "support.h"

#include <unistd.h>

#include <thread>

namespace openreg::testing {
namespace {

/// Expects that `value` is refused in a sentence that names it, the variable
/// and each of the `accepted` parts.
void expectRefused(
    const char* name,
    const char* value,
    const std::vector<const char*>& accepted) {
  SCOPED_TRACE(std::string(name) + '=' + value);
  auto body = [&] {
    setenv(name, value, 1);
    CHILD_REQUIRE(orDeviceSynchronize() == orErrorInvalidConfiguration);
    CHILD_REQUIRE(detailHas(std::string(name) + "='" + value + "'"));
    for (const char* part : accepted) {
      CHILD_REQUIRE(detailHas(part));
    }
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

/// Launches a small kernel in an idle stream; tells whether the caller ran it.
bool smallWorkRunsOnTheCaller() {
  std::thread::id runner;
  const orLaunchConfig small{"small", orLaunchSmall};
  auto kernel = [&runner] { runner = std::this_thread::get_id(); };
  CHILD_REQUIRE(orLaunchKernelEx(&small, defaultStream(), kernel) == orSuccess);
  CHILD_REQUIRE(orDeviceSynchronize() == orSuccess);
  CHILD_REQUIRE(runner != std::thread::id());
  return runner == std::this_thread::get_id();
}

TEST(ScheduleTest, AutoRunsSmallWorkOfAnIdleStreamOnTheCaller) {
  auto body = [] {
    setenv("OPENREG_SCHEDULE", "auto", 1);
    return smallWorkRunsOnTheCaller();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ScheduleTest, AutoIsTheDefault) {
  auto body = [] {
    unsetenv("OPENREG_SCHEDULE");
    return smallWorkRunsOnTheCaller();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ScheduleTest, AsyncAndAdversarialQueueSmallWorkToo) {
  for (const char* policy : {"async", "adversarial"}) {
    auto body = [policy] {
      setenv("OPENREG_SCHEDULE", policy, 1);
      return !smallWorkRunsOnTheCaller();
    };
    EXPECT_CHILD_SUCCEEDS(body);
  }
}

TEST(ScheduleTest, OtherPoliciesAreRefused) {
  for (const char* value : {"", "sometimes", "Auto", "auto "}) {
    expectRefused("OPENREG_SCHEDULE", value, {"auto", "async", "adversarial"});
  }
}

TEST(SeedTest, AnyNumberOf64BitsIsAccepted) {
  for (const char* value : {"0", "7", "18446744073709551615"}) {
    auto body = [value] {
      setenv("OPENREG_SEED", value, 1);
      return orDeviceSynchronize() == orSuccess;
    };
    EXPECT_CHILD_SUCCEEDS(body);
  }
}

TEST(SeedTest, OtherThanANumberIsRefused) {
  for (const char* value :
       {"", "x", "-1", "1.5", "0x1", "18446744073709551616"}) {
    expectRefused("OPENREG_SEED", value, {"number"});
  }
}

TEST(LaunchBlockingTest, OneMakesEveryLaunchWait) {
  auto body = [] {
    setenv("OPENREG_LAUNCH_BLOCKING", "1", 1);
    Stream stream;
    PinnedArray<char> pinned(4096, 'x');
    DeviceArray<char> array(4096);
    for (orStream_t each : {orStream_t(stream), defaultStream()}) {
      bool ran = false;
      CHILD_REQUIRE(orLaunchKernel(each, [&ran] { ran = true; }) == orSuccess);
      CHILD_REQUIRE(ran);
      pinned[4095] = 'x';
      CHILD_REQUIRE(orMemsetAsync(array.data(), 'y', 4096, each) == orSuccess);
      CHILD_REQUIRE(
          orMemcpyAsync(
              pinned.data(), array.data(), 4096, orMemcpyDefault, each) ==
          orSuccess);
      CHILD_REQUIRE(pinned[4095] == 'y');
    }
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

// It could only wait for itself to end.
TEST(LaunchBlockingTest, AKernelThatLaunchesDoesNotWait) {
  auto body = [] {
    setenv("OPENREG_LAUNCH_BLOCKING", "1", 1);
    alarm(60);
    Stream stream;
    orError_t inside = orErrorNotReady;
    bool ran = false;
    const auto launchMore = [&] {
      inside = orLaunchKernel(stream, [&ran] { ran = true; });
    };
    CHILD_REQUIRE(orLaunchKernel(stream, launchMore) == orSuccess);
    CHILD_REQUIRE(inside == orSuccess);
    CHILD_REQUIRE(orStreamSynchronize(stream) == orSuccess);
    return ran;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(LaunchBlockingTest, OneMakesTheLaunchItselfFail) {
  auto body = [] {
    setenv("OPENREG_LAUNCH_BLOCKING", "1", 1);
    auto kernel = [] { orKernelFail(orErrorAssert, "index 9 of 5"); };
    CHILD_REQUIRE(orLaunchKernel(defaultStream(), kernel) == orErrorAssert);
    return bool(detailHas("index 9 of 5"));
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(LaunchBlockingTest, ZeroIsTheDefaultAndLetsLaunchesReturn) {
  for (const char* value : {"0", static_cast<const char*>(nullptr)}) {
    auto body = [value] {
      unsetenv("OPENREG_LAUNCH_BLOCKING");
      if (value) {
        setenv("OPENREG_LAUNCH_BLOCKING", value, 1);
      }
      Gate gate(defaultStream());
      return orStreamQuery(defaultStream()) == orErrorNotReady;
    };
    EXPECT_CHILD_SUCCEEDS(body);
  }
}

TEST(LaunchBlockingTest, OtherThanZeroAndOneIsRefused) {
  for (const char* value : {"", "2", "yes", "01"}) {
    expectRefused("OPENREG_LAUNCH_BLOCKING", value, {"0", "1"});
  }
}

/// Runs a kernel that fails; returns what the device says afterwards.
orError_t afterAFailedKernel() {
  auto kernel = [] { orKernelFail(orErrorAssert, "index 9 of 5"); };
  CHILD_REQUIRE(orLaunchKernel(defaultStream(), kernel) == orSuccess);
  CHILD_REQUIRE(orDeviceSynchronize() == orErrorAssert);
  CHILD_REQUIRE(detailHas("index 9 of 5"));
  return orDeviceSynchronize();
}

TEST(DeviceAssertTest, StickyIsTheDefaultAndKeepsTheDeviceBroken) {
  for (const char* value : {"sticky", static_cast<const char*>(nullptr)}) {
    auto body = [value] {
      unsetenv("OPENREG_DEVICE_ASSERT");
      if (value) {
        setenv("OPENREG_DEVICE_ASSERT", value, 1);
      }
      void* memory = nullptr;
      CHILD_REQUIRE(afterAFailedKernel() == orErrorAssert);
      CHILD_REQUIRE(orMalloc(&memory, 1) == orErrorAssert);
      CHILD_REQUIRE(orDeviceReset() == orSuccess);
      return orMalloc(&memory, 1) == orSuccess;
    };
    EXPECT_CHILD_SUCCEEDS(body);
  }
}

TEST(DeviceAssertTest, RaiseReportsOnceAndTheDeviceWorksOn) {
  auto body = [] {
    setenv("OPENREG_DEVICE_ASSERT", "raise", 1);
    Stream stream;
    DeviceArray<char> array(4096);
    CHILD_REQUIRE(afterAFailedKernel() == orSuccess);

    CHILD_REQUIRE(orMemset(array.data(), 3, 4096) == orSuccess);
    CHILD_REQUIRE(array.read() == std::vector<char>(4096, 3));
    bool ran = false;
    CHILD_REQUIRE(orLaunchKernel(stream, [&ran] { ran = true; }) == orSuccess);
    CHILD_REQUIRE(orStreamSynchronize(stream) == orSuccess);
    CHILD_REQUIRE(afterAFailedKernel() == orSuccess); // and a second time
    return ran;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ExecutorTest, SmallKernelsOfAnotherProcessDoNotHoldTheCallerUp) {
  const auto body = [] {
    setenv("OPENREG_EXECUTOR", "process", 1);
    setenv("OPENREG_SCHEDULE", "auto", 1);
    const orLaunchConfig small{"small", orLaunchSmall};
    std::thread::id thread;
    auto kernel = [&thread] { thread = std::this_thread::get_id(); };
    CHILD_REQUIRE(
        orLaunchKernelEx(&small, defaultStream(), kernel) == orSuccess);
    CHILD_REQUIRE(orDeviceSynchronize() == orSuccess);
    return thread != std::this_thread::get_id();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ExecutorTest, TheLibraryTellsWhoRunsKernels) {
  const auto isTold = [](const char* value, orExecutor expected) {
    return [value, expected] {
      value ? setenv("OPENREG_EXECUTOR", value, 1)
            : unsetenv("OPENREG_EXECUTOR");
      orExecutor executor{};
      CHILD_REQUIRE(orGetExecutor(&executor) == orSuccess);
      setenv("OPENREG_EXECUTOR", "process", 1); // it was read before
      orExecutor again{};
      CHILD_REQUIRE(orGetExecutor(&again) == orSuccess);
      CHILD_REQUIRE(orGetExecutor(nullptr) == orErrorInvalidValue);
      return executor == expected && again == expected;
    };
  };
  EXPECT_CHILD_SUCCEEDS(isTold(nullptr, orExecutorThread));
  EXPECT_CHILD_SUCCEEDS(isTold("thread", orExecutorThread));
  EXPECT_CHILD_SUCCEEDS(isTold("process", orExecutorProcess));
}

TEST(ExecutorTest, OtherExecutorsAreRefused) {
  for (const char* value : {"", "threads", "1"}) {
    expectRefused("OPENREG_EXECUTOR", value, {"thread", "process"});
  }
}

TEST(DeviceAssertTest, OtherWaysAreRefused) {
  for (const char* value : {"", "ignore", "1"}) {
    expectRefused("OPENREG_DEVICE_ASSERT", value, {"sticky", "raise"});
  }
}

TEST(WaitTimeoutTest, ADecimalNumberOfSecondsEndsWaiting) {
  for (const char* value : {"0.05", "1e-2", ".01"}) {
    auto body = [value] {
      setenv("OPENREG_WAIT_TIMEOUT", value, 1);
      Gate gate(defaultStream());
      CHILD_REQUIRE(orStreamSynchronize(defaultStream()) == orErrorTimeout);
      CHILD_REQUIRE(detailHas("OPENREG_WAIT_TIMEOUT"));
      CHILD_REQUIRE(orDeviceSynchronize() == orErrorTimeout);
      return true;
    };
    EXPECT_CHILD_SUCCEEDS(body);
  }
}

TEST(WaitTimeoutTest, ZeroIsTheDefaultAndWaitsForEver) {
  for (const char* value : {"0", static_cast<const char*>(nullptr)}) {
    auto body = [value] {
      unsetenv("OPENREG_WAIT_TIMEOUT");
      if (value) {
        setenv("OPENREG_WAIT_TIMEOUT", value, 1);
      }
      Gate gate(defaultStream());
      orError_t status = orErrorNotReady;
      auto wait = [&status] { status = orStreamSynchronize(defaultStream()); };
      CHILD_REQUIRE(waitsForGate(gate, wait));
      return status == orSuccess;
    };
    EXPECT_CHILD_SUCCEEDS(body);
  }
}

TEST(WaitTimeoutTest, OtherThanANumberOfSecondsIsRefused) {
  for (const char* value : {"", "soon", "-1", "5s", "nan", "inf", "1e300"}) {
    expectRefused("OPENREG_WAIT_TIMEOUT", value, {"seconds", "for ever"});
  }
}

} // namespace
} // namespace openreg::testing
