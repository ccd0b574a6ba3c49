#include "support.h"

#include <atomic>
#include <thread>
#include <vector>

namespace openreg::testing {
namespace {

constexpr orLaunchConfig kHere{"here", orLaunchHere};

class LaunchHereTest : public ::testing::Test {
 protected:
  Stream stream_;
};

TEST_F(LaunchHereTest, RunsOnTheCallingThreadBeforeItReturns) {
  std::thread::id ran;
  ASSERT_EQ(
      orLaunchKernelEx(
          &kHere, stream_, [&] { ran = std::this_thread::get_id(); }),
      orSuccess);
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST_F(LaunchHereTest, ComesAfterWhatWasQueuedBefore) {
  std::vector<int> order;
  Gate gate(stream_);
  ASSERT_EQ(orLaunchKernel(stream_, [&] { order.push_back(1); }), orSuccess);
  std::thread host([&] {
    EXPECT_EQ(
        orLaunchKernelEx(&kHere, stream_, [&] { order.push_back(2); }),
        orSuccess);
  });
  gate.open();
  host.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(LaunchHereTest, HoldsTheStreamAgainstOtherThreads) {
  constexpr int kThreads = 4, kLaunches = 200;
  int count = 0; // no atomic: the stream keeps the launches apart
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < kLaunches; ++n) {
        const auto increase = [&] { ++count; };
        EXPECT_EQ(
            (i + n) % 2 ? orLaunchKernelEx(&kHere, stream_, increase)
                        : orLaunchKernel(stream_, increase),
            orSuccess);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(count, kThreads * kLaunches);
}

TEST_F(LaunchHereTest, LaterWorkOfOtherThreadsQueuesBehindIt) {
  std::atomic<bool> later{false};
  bool laterDuring = true;
  ASSERT_EQ(
      orLaunchKernelEx(
          &kHere,
          stream_,
          [&] {
            std::thread other([&] {
              EXPECT_EQ(
                  orLaunchKernel(stream_, [&] { later = true; }), orSuccess);
            });
            other.join();
            laterDuring = later;
          }),
      orSuccess);
  EXPECT_FALSE(laterDuring);
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_TRUE(later);
}

TEST_F(LaunchHereTest, IsNotPermittedInsideAKernel) {
  orError_t inside = orSuccess;
  ASSERT_EQ(
      orLaunchKernel(
          stream_, [&] { inside = orLaunchKernelEx(&kHere, stream_, [] {}); }),
      orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(inside, orErrorNotPermitted);
}

TEST_F(LaunchHereTest, RunsNothingOnABrokenDevice) {
  bool ran = false;
  ASSERT_EQ(
      orLaunchKernel(stream_, [] { orKernelFail(orErrorAssert, "bad"); }),
      orSuccess);
  EXPECT_EQ(
      orLaunchKernelEx(&kHere, stream_, [&] { ran = true; }), orErrorAssert);
  EXPECT_FALSE(ran);
  EXPECT_EQ(orDeviceReset(), orSuccess);
}

constexpr orLaunchConfig kTry{"try", orLaunchTry};

TEST_F(LaunchHereTest, TryingRunsAtOnceWhereSmallWorkWould) {
  bool ran = false;
  const orError_t status =
      orLaunchKernelEx(&kTry, stream_, [&] { ran = true; });
  const bool mayRun = scheduleIs("auto");
  EXPECT_EQ(status, mayRun ? orSuccess : orErrorNotReady);
  EXPECT_EQ(ran, mayRun);
}

TEST_F(LaunchHereTest, TryingOnABusyStreamRunsNothing) {
  bool ran = false;
  Gate gate(stream_);
  EXPECT_EQ(
      orLaunchKernelEx(&kTry, stream_, [&] { ran = true; }), orErrorNotReady);
  EXPECT_TRUE(detailHas("busy"));
  gate.open();
  EXPECT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_FALSE(ran);
}

TEST_F(LaunchHereTest, FlagsBeyondItAreRefused) {
  const orLaunchConfig unknown{"unknown", 5};
  EXPECT_EQ(orLaunchKernelEx(&unknown, stream_, [] {}), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("but is 5"));
}

} // namespace
} // namespace openreg::testing
