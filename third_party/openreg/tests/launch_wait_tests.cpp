#include "support.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace openreg::testing {
namespace {

constexpr orLaunchConfig kWait{"waited for", orLaunchWait};

class LaunchWaitTest : public ::testing::Test {
 protected:
  Stream stream_;
};

TEST_F(LaunchWaitTest, RunsOnTheThreadOfTheStreamBeforeItReturns) {
  std::thread::id queued, ran;
  ASSERT_EQ(
      orLaunchKernel(stream_, [&] { queued = std::this_thread::get_id(); }),
      orSuccess);
  ASSERT_EQ(
      orLaunchKernelEx(
          &kWait, stream_, [&] { ran = std::this_thread::get_id(); }),
      orSuccess);
  EXPECT_NE(ran, std::thread::id());
  EXPECT_NE(ran, std::this_thread::get_id());
  EXPECT_EQ(ran, queued);
}

TEST_F(LaunchWaitTest, ComesAfterWhatWasQueuedBefore) {
  std::vector<int> order;
  Gate gate(stream_);
  ASSERT_EQ(orLaunchKernel(stream_, [&] { order.push_back(1); }), orSuccess);
  EXPECT_TRUE(waitsForGate(gate, [&] {
    EXPECT_EQ(
        orLaunchKernelEx(&kWait, stream_, [&] { order.push_back(2); }),
        orSuccess);
  }));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(LaunchWaitTest, LaterWorkOfOtherThreadsQueuesBehindIt) {
  std::atomic<bool> later{false};
  bool laterDuring = true;
  ASSERT_EQ(
      orLaunchKernelEx(
          &kWait,
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

// The launcher waits, so the callable stays with it, however large it is.
TEST_F(LaunchWaitTest, TheCallableIsNeitherCopiedNorMoved) {
  struct Callable {
    const Callable** ran;
    void operator()() {
      *ran = this;
    }
  };
  static_assert(sizeof(Callable) <= OPENREG_CALLABLE_BYTES);
  const Callable* ran = nullptr;
  Callable callable{&ran};
  const orCallableType type{
      sizeof(Callable),
      [](void* self) { (*static_cast<Callable*>(self))(); },
      nullptr,
      nullptr};
  ASSERT_EQ(orLaunchCallable(stream_, &type, &callable, &kWait), orSuccess);
  EXPECT_EQ(ran, &callable);
}

TEST_F(LaunchWaitTest, AnExceptionOutOfItBreaksTheDevice) {
  EXPECT_EQ(
      orLaunchKernelEx(
          &kWait, stream_, [] { throw std::runtime_error("on purpose"); }),
      orErrorLaunchFailure);
  EXPECT_TRUE(detailHas("on purpose"));
  EXPECT_TRUE(detailHas("waited for"));
  EXPECT_EQ(orDeviceSynchronize(), orErrorLaunchFailure);
  EXPECT_EQ(orDeviceReset(), orSuccess);
}

TEST_F(LaunchWaitTest, RunsNothingOnADeviceThatBreaksBefore) {
  bool ran = false;
  Gate gate(stream_);
  ASSERT_EQ(
      orLaunchKernel(stream_, [] { orKernelFail(orErrorAssert, "bad"); }),
      orSuccess);
  waitsForGate(gate, [&] {
    EXPECT_EQ(
        orLaunchKernelEx(&kWait, stream_, [&] { ran = true; }), orErrorAssert);
  });
  EXPECT_FALSE(ran);
  EXPECT_EQ(orDeviceReset(), orSuccess);
}

TEST_F(LaunchWaitTest, IsNotPermittedInsideAKernel) {
  orError_t inside = orSuccess, other = orSuccess;
  bool ran = false;
  Stream otherStream;
  ASSERT_EQ(
      orLaunchKernel(
          stream_,
          [&] {
            const auto run = [&] { ran = true; };
            inside = orLaunchKernelEx(&kWait, stream_, run);
            other = orLaunchKernelEx(&kWait, otherStream, run);
          }),
      orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  ASSERT_EQ(orStreamSynchronize(otherStream), orSuccess);
  EXPECT_EQ(inside, orErrorNotPermitted);
  EXPECT_EQ(other, orErrorNotPermitted);
  EXPECT_FALSE(ran);
}

// For a stream whose wait may time out.
void pollUntilIdle(orStream_t stream) {
  while (orStreamQuery(stream) == orErrorNotReady) {
    std::this_thread::yield();
  }
  EXPECT_EQ(orStreamQuery(stream), orSuccess);
}

TEST(LaunchWaitTimeoutTest, WhatTimesOutNeverRuns) {
  const auto body = [] {
    setenv("OPENREG_WAIT_TIMEOUT", "0.05", 1);
    Stream stream;
    bool ran = false;
    {
      Gate gate(stream);
      EXPECT_EQ(
          orLaunchKernelEx(&kWait, stream, [&] { ran = true; }),
          orErrorTimeout);
      EXPECT_TRUE(detailHas("OPENREG_WAIT_TIMEOUT"));
    }
    pollUntilIdle(stream);
    EXPECT_FALSE(ran);
    EXPECT_EQ(orLaunchKernelEx(&kWait, stream, [&] { ran = true; }), orSuccess);
    EXPECT_TRUE(ran);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

// It uses what belongs to its launcher, who may leave only when it has ended.
TEST(LaunchWaitTimeoutTest, WhatHasBegunIsWaitedForHoweverLongItTakes) {
  const auto body = [] {
    setenv("OPENREG_WAIT_TIMEOUT", "0.05", 1);
    Stream stream, probe;
    std::promise<void> promise;
    Gate held(probe);
    bool finished = false;
    std::thread opener([&, begun = promise.get_future()] {
      begun.wait();
      // One wait that times out, begun later than the launch's: so has that one.
      EXPECT_EQ(orStreamSynchronize(probe), orErrorTimeout);
      EXPECT_EQ(orStreamSynchronize(probe), orErrorTimeout);
      held.open();
    });
    EXPECT_EQ(
        orLaunchKernelEx(
            &kWait,
            stream,
            [&] {
              promise.set_value();
              opener.join();
              finished = true;
            }),
        orSuccess);
    EXPECT_TRUE(finished);
    pollUntilIdle(probe);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

} // namespace
} // namespace openreg::testing
