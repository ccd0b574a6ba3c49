// How busy a device is said to be.
#include "support.h"

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

} // namespace
} // namespace openreg::testing
