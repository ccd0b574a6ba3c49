// How busy a device is said to be, and how much it has to do.
#include "support.h"

#include <thread>

namespace openreg::testing {
namespace {

int utilization(int device) {
  int percent = -1;
  EXPECT_EQ(orDeviceGetUtilization(&percent, device), orSuccess);
  return percent;
}

TEST(UtilizationTest, AnIdleDeviceIsNotBusy) {
  EXPECT_EQ(utilization(0), 0);
}

TEST(UtilizationTest, ADeviceIsBusyWhileAKernelRunsThere) {
  const Stream stream;
  std::atomic<bool> started{false};
  std::promise<void> gate;
  ASSERT_EQ(
      orLaunchKernel(
          stream,
          [&started, open = gate.get_future().share()] {
            started = true;
            open.wait();
          }),
      orSuccess);
  while (!started) {
    orStreamQuery(stream); // the adversarial schedule runs what is asked for
  }
  EXPECT_EQ(utilization(0), 100);
  EXPECT_EQ(utilization(1), 0);

  gate.set_value();
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(utilization(0), 0);
}

TEST(UtilizationTest, WaitingForAnotherDeviceIsNotBusy) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  const Stream other;
  Gate gate(other);
  const Event event;
  ASSERT_EQ(orEventRecord(event, other), orSuccess);
  ASSERT_EQ(orSetDevice(0), orSuccess);
  const Stream stream;
  ASSERT_EQ(orStreamWaitEvent(stream, event, 0), orSuccess);
  EXPECT_EQ(utilization(0), 0);
}

TEST(UtilizationTest, NeedsADeviceAndAPlace) {
  EXPECT_EQ(orDeviceGetUtilization(nullptr, 0), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("percent"));
  int percent = 7;
  EXPECT_EQ(orDeviceGetUtilization(&percent, 2), orErrorInvalidDevice);
  EXPECT_TRUE(detailHas("2"));
  EXPECT_EQ(percent, 7);
}

// --- how much there is to do ------------------------------------------------------

using Depth = std::pair<size_t, size_t>; // tasks, streams

Depth queueDepth(int device) {
  size_t tasks = 99, streams = 99;
  EXPECT_EQ(orDeviceGetQueueDepth(&tasks, &streams, device), orSuccess);
  return {tasks, streams};
}

TEST(QueueDepthTest, CountsWhatIsNotFinished) {
  for (const int device : {1, 0}) {
    ASSERT_EQ(orSetDevice(device), orSuccess);
    ASSERT_EQ(orDeviceSynchronize(), orSuccess);
    EXPECT_EQ(queueDepth(device), Depth(0, 0));
  }
  const Stream one, two;
  {
    Gate first(one), second(two);
    ASSERT_EQ(orLaunchKernel(one, [] {}), orSuccess);
    ASSERT_EQ(orLaunchKernel(one, [] {}), orSuccess);
    EXPECT_EQ(queueDepth(0), Depth(4, 2));
    EXPECT_EQ(queueDepth(1), Depth(0, 0));
  }
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(queueDepth(0), Depth(0, 0));
}

TEST(QueueDepthTest, NeedsADeviceAndPlaces) {
  size_t tasks = 7, streams = 8;
  EXPECT_EQ(orDeviceGetQueueDepth(nullptr, &streams, 0), orErrorInvalidValue);
  EXPECT_EQ(orDeviceGetQueueDepth(&tasks, nullptr, 0), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("NULL"));
  EXPECT_EQ(orDeviceGetQueueDepth(&tasks, &streams, 2), orErrorInvalidDevice);
  EXPECT_TRUE(detailHas("2"));
  EXPECT_EQ(Depth(tasks, streams), Depth(7, 8));
}

int waitingThreads() {
  int threads = -1;
  EXPECT_EQ(orGetWaitingThreads(&threads), orSuccess);
  return threads;
}

TEST(WaitingThreadsTest, CountsThoseThatWaitForWork) {
  const Stream stream;
  Gate gate(stream);
  EXPECT_EQ(waitingThreads(), 0);
  std::thread one([&] { EXPECT_EQ(orStreamSynchronize(stream), orSuccess); });
  std::thread two([] { EXPECT_EQ(orDeviceSynchronize(), orSuccess); });
  while (waitingThreads() != 2) {
    std::this_thread::yield();
  }
  gate.open();
  one.join();
  two.join();
  EXPECT_EQ(waitingThreads(), 0);
}

TEST(WaitingThreadsTest, CountsALauncherWhoseQueueIsFull) {
  const Stream stream;
  Gate gate(stream);
  std::thread launcher([&] {
    for (int i = 0; i < 1200; ++i) {
      ASSERT_EQ(orLaunchKernel(stream, [] {}), orSuccess);
    }
  });
  while (waitingThreads() != 1) {
    std::this_thread::yield();
  }
  gate.open();
  launcher.join();
  EXPECT_EQ(waitingThreads(), 0);
}

TEST(WaitingThreadsTest, NeedsAPlace) {
  EXPECT_EQ(orGetWaitingThreads(nullptr), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("NULL"));
}

} // namespace
} // namespace openreg::testing
