// Kernels that run before their call returns.
#include "kernels.h"

#include "runtime/OpenRegThreads.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <thread>

namespace c10::openreg::testing {
namespace {

using at::Tensor;
using at::native::openreg::runAndWait;
using at::native::openreg::runHere;
using at::native::openreg::tryRun;

class LaunchTest : public DeviceTest {
 protected:
  LaunchTest() {
    useThreads(2);
  }

  const OpenRegStream stream = getStreamFromPool(0, 0);
};

// --- runHere ------------------------------------------------------------------

TEST_F(LaunchTest, RunHereRunsOnTheCallingThread) {
  std::thread::id ran;
  runHere(smallKernel(stream), [&] { ran = std::this_thread::get_id(); });
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST_F(LaunchTest, RunHereWaitsForTheWorkBefore) {
  Gate gate(stream);
  bool done = false;
  ASSERT_EQ(orLaunchKernel(stream, [&] { done = true; }), orSuccess);
  bool seen = false;
  EXPECT_TRUE(waitsForGate(
      gate, [&] { runHere(smallKernel(stream), [&] { seen = done; }); }));
  EXPECT_TRUE(seen);
}

TEST_F(LaunchTest, RunHerePassesExceptionsOnAndTheDeviceStaysUsable) {
  const auto fail = [&] {
    runHere(
        smallKernel(stream), [] { TORCH_CHECK_INDEX(false, "on purpose"); });
  };
  EXPECT_THROW(fail(), IndexError);
  EXPECT_TRUE(has(messageOf(fail), "on purpose"));
  EXPECT_THROW(
      runHere(smallKernel(stream), [] { throw std::runtime_error("other"); }),
      std::runtime_error);
  EXPECT_NO_THROW(device_synchronize());
  bool ran = false;
  runHere(smallKernel(stream), [&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST_F(LaunchTest, RunHereRefusesAStreamThatNamesNothing) {
  const OpenRegStream wrong(Stream(
      Stream::UNSAFE, device(0), reinterpret_cast<StreamId>(madeUp<void*>())));
  bool ran = false;
  EXPECT_EQ(
      codeOf([&] { runHere(smallKernel(wrong), [&] { ran = true; }); }),
      orErrorInvalidHandle);
  EXPECT_FALSE(ran);
}

// The kernel is abandoned where it stands, so the caller learns of it from the
// device.
TEST(LaunchChildTest, AKernelThatIsAbandonedIsAnErrorOfTheDevice) {
  EXPECT_CHILD_SUCCEEDS([] {
    const Tensor tensor = at::zeros({4}, at::device(device(0)));
    auto* address = static_cast<volatile char*>(tensor.data_ptr());
    const int code = codeOf([&] {
      runHere(smallKernel(getDefaultOpenRegStream(0)), [&] { *address = 1; });
    });
    CHILD_REQUIRE(code == orErrorIllegalAddress);
    return true;
  });
}

// --- tryRun -------------------------------------------------------------------

TEST_F(LaunchTest, TryingRunsSmallWorkOnTheCallingThreadOfAnIdleStream) {
  std::thread::id ran;
  const bool mayRun = ::openreg::testing::scheduleIs("auto");
  EXPECT_EQ(
      tryRun(smallKernel(stream), [&] { ran = std::this_thread::get_id(); }),
      mayRun);
  EXPECT_EQ(ran == std::this_thread::get_id(), mayRun);
}

TEST_F(LaunchTest, TryingRunsNeitherLargeWorkNorAnyOnABusyStream) {
  bool ran = false;
  EXPECT_FALSE(tryRun(largeKernel(stream), [&] { ran = true; }));
  Gate gate(stream);
  EXPECT_FALSE(tryRun(smallKernel(stream), [&] { ran = true; }));
  gate.open();
  stream.synchronize();
  EXPECT_FALSE(ran);
}

// --- runAndWait ---------------------------------------------------------------

TEST_F(LaunchTest, SmallWorkThatIsWaitedForRunsOnTheCallingThread) {
  std::thread::id ran;
  runAndWait(smallKernel(stream), [&] { ran = std::this_thread::get_id(); });
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST_F(LaunchTest, LargeWorkThatIsWaitedForRunsOnTheThreadOfTheStream) {
  std::thread::id queued, ran;
  ASSERT_EQ(
      orLaunchKernel(stream, [&] { queued = std::this_thread::get_id(); }),
      orSuccess);
  runAndWait(largeKernel(stream), [&] { ran = std::this_thread::get_id(); });
  EXPECT_NE(ran, std::this_thread::get_id());
  EXPECT_EQ(ran, queued);
}

TEST_F(LaunchTest, LargeWorkThatIsWaitedForRunsHereIfItGetsOneThread) {
  useThreads(1);
  std::thread::id ran;
  runAndWait(largeKernel(stream), [&] { ran = std::this_thread::get_id(); });
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST_F(LaunchTest, LargeWorkThatIsWaitedForComesAfterTheWorkBefore) {
  Gate gate(stream);
  bool done = false;
  ASSERT_EQ(orLaunchKernel(stream, [&] { done = true; }), orSuccess);
  bool seen = false;
  EXPECT_TRUE(waitsForGate(
      gate, [&] { runAndWait(largeKernel(stream), [&] { seen = done; }); }));
  EXPECT_TRUE(seen);
}

// Large work finds the modes of its caller on the stream's thread, and leaves that
// one as it was.
TEST_F(LaunchTest, LargeWorkHasTheModesOfItsCaller) {
  bool inference = false, grad = true;
  const auto look = [&] {
    runAndWait(largeKernel(stream), [&] {
      inference = InferenceMode::is_enabled();
      grad = GradMode::is_enabled();
    });
  };
  {
    const InferenceMode mode;
    look();
    EXPECT_TRUE(inference);
    EXPECT_FALSE(grad);
  }
  {
    const at::NoGradGuard mode;
    look();
    EXPECT_FALSE(inference);
    EXPECT_FALSE(grad);
  }
  look();
  EXPECT_FALSE(inference);
  EXPECT_TRUE(grad);
  ASSERT_EQ(
      orLaunchKernel(stream, [&] { inference = InferenceMode::is_enabled(); }),
      orSuccess);
  stream.synchronize();
  EXPECT_FALSE(inference);
}

TEST_F(LaunchTest, WarningsOfLargeWorkReachTheCallersHandler) {
  Warnings warnings;
  runAndWait(largeKernel(stream), [] {
    TORCH_WARN("first");
    TORCH_WARN("second");
  });
  EXPECT_EQ(warnings.messages, (std::vector<std::string>{"first", "second"}));
}

TEST_F(LaunchTest, WarningsOfLargeWorkThatFailsReachTheCallerToo) {
  Warnings warnings;
  EXPECT_THROW(
      runAndWait(
          largeKernel(stream),
          [] {
            TORCH_WARN("first");
            TORCH_CHECK(false, "on purpose");
          }),
      Error);
  EXPECT_EQ(warnings.messages, std::vector<std::string>{"first"});
}

TEST_F(LaunchTest, AWarningThatIsAnErrorForTheCallerLeavesTheDeviceUsable) {
  {
    const WarningsThrow strict;
    const auto warn = [&] {
      runAndWait(largeKernel(stream), [] { TORCH_WARN("on purpose"); });
    };
    EXPECT_TRUE(has(messageOf(warn), "on purpose"));
  }
  EXPECT_NO_THROW(device_synchronize());
}

TEST_F(LaunchTest, ExceptionsOfLargeWorkReachTheCallerAndTheDeviceStaysUsable) {
  const auto fail = [&] {
    runAndWait(
        largeKernel(stream), [] { TORCH_CHECK_INDEX(false, "on purpose"); });
  };
  EXPECT_THROW(fail(), IndexError);
  EXPECT_TRUE(has(messageOf(fail), "on purpose"));
  EXPECT_THROW(
      runAndWait(
          largeKernel(stream), [] { throw std::runtime_error("other"); }),
      std::runtime_error);
  EXPECT_NO_THROW(device_synchronize());
  bool ran = false;
  runAndWait(largeKernel(stream), [&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(LaunchChildTest, LargeWorkThatBreaksTheDeviceIsAnErrorOfIt) {
  EXPECT_CHILD_SUCCEEDS([] {
    const auto fail = [] {
      runAndWait(largeKernel(getDefaultOpenRegStream(0)), [] {
        orKernelFail(orErrorAssert, "on purpose");
      });
    };
    CHILD_REQUIRE(has(messageOf(fail), "on purpose"));
    CHILD_REQUIRE(codeOf([] { device_synchronize(); }) == orErrorAssert);
    return true;
  });
}

TEST(LaunchChildTest, LargeWorkThatIsAbandonedIsAnErrorOfTheDevice) {
  EXPECT_CHILD_SUCCEEDS([] {
    const Tensor tensor = at::zeros({4}, at::device(device(0)));
    auto* address = static_cast<volatile char*>(tensor.data_ptr());
    const int code = codeOf([&] {
      runAndWait(
          largeKernel(getDefaultOpenRegStream(0)), [&] { *address = 1; });
    });
    CHILD_REQUIRE(code == orErrorIllegalAddress);
    return true;
  });
}

TEST(
    LaunchChildTest,
    ADeviceThatBreaksBeforeLargeWorkIsAnErrorAndItDoesNotRun) {
  EXPECT_CHILD_SUCCEEDS([] {
    const OpenRegStream stream = getDefaultOpenRegStream(0);
    Gate gate(stream);
    CHILD_REQUIRE(orLaunchKernel(stream, [] {
                    orKernelFail(orErrorAssert, "on purpose");
                  }) == orSuccess);
    bool ran = false;
    int code = orSuccess;
    waitsForGate(gate, [&] {
      code =
          codeOf([&] { runAndWait(largeKernel(stream), [&] { ran = true; }); });
    });
    CHILD_REQUIRE(code == orErrorAssert);
    CHILD_REQUIRE(!ran);
    return true;
  });
}

// --- threads ------------------------------------------------------------------

/// On a thread of its own, whose kernels may use three threads.
template <class Call>
void withThreeThreads(Call call) {
  std::thread([&] {
    useThreads(3);
    call();
    EXPECT_EQ(at::get_num_threads(), 3);
  }).join();
}

TEST_F(LaunchTest, SmallWorkHasOneThreadAndTheCallerItsOwnAfterwards) {
  withThreeThreads([&] {
    int threads = 0;
    const auto look = [&] { threads = at::get_num_threads(); };
    runAndWait(smallKernel(stream), look);
    EXPECT_EQ(threads, 1);
    threads = 0;
    runHere(largeKernel(stream), look);
    EXPECT_EQ(threads, 1);
    EXPECT_THROW(
        runAndWait(smallKernel(stream), [] { TORCH_CHECK(false); }), Error);
  });
}

TEST_F(LaunchTest, WorkThatNeedsAllThreadsHasThoseOfItsCaller) {
  withThreeThreads([&] {
    int threads = 0;
    runAndWait(largeKernel(stream), [&] { threads = at::get_num_threads(); });
    EXPECT_EQ(threads, 3);
  });
}

// From a caller that waits no processor is taken away.
TEST_F(LaunchTest, LargeWorkThatIsWaitedForHasAllThreads) {
  withThreeThreads([&] {
    std::vector<int> threads;
    KernelNow kernel = largeKernel(stream);
    for (const double microseconds : {50., 200., 2e3}) {
      kernel.microseconds = microseconds;
      runAndWait(kernel, [&] { threads.push_back(at::get_num_threads()); });
    }
    EXPECT_EQ(threads, (std::vector<int>{1, 3, 3}));
  });
}

/// How many threads a queued kernel of so many microseconds gets, with more threads than
/// processors. `waits`: its launcher waits as it begins.
int threadsOfQueued(
    const OpenRegStream& stream,
    double microseconds,
    bool waits) {
  int threads = 0;
  std::thread([&] {
    useThreads(1 + static_cast<int>(std::thread::hardware_concurrency()));
    KernelNow kernel = largeKernel(stream);
    kernel.microseconds = microseconds;
    Gate gate(stream);
    at::native::openreg::queue(
        kernel, [&threads] { threads = at::get_num_threads(); });
    if (waits) {
      std::thread opener([&] {
        for (int waiting = 0; waiting == 0;) {
          orGetWaitingThreads(&waiting);
          std::this_thread::yield();
        }
        gate.open();
      });
      stream.synchronize();
      opener.join();
    }
    gate.open();
    // Not a wait: the launcher stays busy.
    while (orStreamQuery(stream) == orErrorNotReady) {
      std::this_thread::yield();
    }
  }).join();
  return threads;
}

TEST_F(LaunchTest, QueuedWorkLeavesAProcessorToALauncherThatDoesNotWait) {
  const int all = 1 + static_cast<int>(std::thread::hardware_concurrency());
  EXPECT_EQ(threadsOfQueued(stream, 200, /*waits=*/false), 1);
  EXPECT_EQ(threadsOfQueued(stream, 200, /*waits=*/true), all);
  EXPECT_EQ(threadsOfQueued(stream, 2e3, /*waits=*/false), 1);
  EXPECT_EQ(threadsOfQueued(stream, 2e4, /*waits=*/false), all);
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  EXPECT_EQ(threadsOfQueued(stream, kEndless, /*waits=*/false), all);
}

} // namespace
} // namespace c10::openreg::testing
