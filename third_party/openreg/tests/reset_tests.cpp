// orDeviceReset(): what is gone afterwards, what stays, and who hears of it.
#include "support.h"

#include <atomic>
#include <memory>

namespace openreg::testing {
namespace {

constexpr size_t kBytes = 4096;

size_t freeBytes() {
  size_t free = 0;
  EXPECT_EQ(orMemGetInfo(&free, nullptr), orSuccess);
  return free;
}

/// Starts and ends with both devices in service and device 0 current.
class ResetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int device : {1, 0}) {
      ASSERT_EQ(orSetDevice(device), orSuccess);
      ASSERT_EQ(orDeviceReset(), orSuccess);
    }
  }
  void TearDown() override {
    SetUp();
  }
};

TEST_F(ResetTest, TheDefaultStreamStaysAndWorks) {
  const orStream_t before = defaultStream();
  ASSERT_EQ(orDeviceReset(), orSuccess);
  EXPECT_EQ(defaultStream(), before);

  bool ran = false;
  ASSERT_EQ(orLaunchKernel(before, [&ran] { ran = true; }), orSuccess);
  EXPECT_EQ(orStreamSynchronize(before), orSuccess);
  EXPECT_TRUE(ran);
}

TEST_F(ResetTest, StreamsAndEventsStayAndWork) {
  Stream stream;
  Event event;
  ASSERT_EQ(orEventRecord(event, stream), orSuccess);
  {
    BrokenDevice broken;
    EXPECT_EQ(orStreamQuery(stream), orErrorAssert);
  }
  EXPECT_EQ(orEventQuery(event), orSuccess);
  bool ran = false;
  ASSERT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
  ASSERT_EQ(orEventRecord(event, stream), orSuccess);
  EXPECT_EQ(orEventSynchronize(event), orSuccess);
  EXPECT_TRUE(ran);
}

TEST_F(ResetTest, AllocationsStay) {
  DeviceArray<char> array(kBytes);
  ASSERT_EQ(orMemset(array.data(), 7, kBytes), orSuccess);
  const size_t free = freeBytes();
  ASSERT_EQ(orDeviceReset(), orSuccess);
  EXPECT_EQ(freeBytes(), free);
  EXPECT_EQ(array.read(), std::vector<char>(kBytes, 7));
}

TEST_F(ResetTest, AnAllocationThatIsOpenToTheHostStaysOpen) {
  DeviceArray<char> array(kBytes);
  ASSERT_EQ(orMemoryUnprotect(array.data()), orSuccess);
  ASSERT_EQ(orDeviceReset(), orSuccess);
  array.data()[0] = 'x';
  EXPECT_EQ(orMemoryProtect(array.data()), orSuccess);
}

TEST_F(ResetTest, TheErrorIsGone) {
  {
    BrokenDevice broken;
    size_t free = 0;
    ASSERT_EQ(orMemGetInfo(&free, nullptr), orErrorAssert);
  }
  DeviceArray<int> array(16);
  ASSERT_EQ(orMemset(array.data(), 0, array.bytes()), orSuccess);
  EXPECT_EQ(array.read(), std::vector<int>(16, 0));
}

TEST_F(ResetTest, AllocationsOfABrokenDeviceCanBeFreedAfterwards) {
  const size_t whole = freeBytes();
  void* memory = nullptr;
  ASSERT_EQ(orMalloc(&memory, kBytes), orSuccess);
  {
    BrokenDevice broken;
    EXPECT_EQ(orFree(memory), orErrorAssert);
  }
  EXPECT_EQ(orFree(memory), orSuccess);
  EXPECT_EQ(freeBytes(), whole);
}

TEST_F(ResetTest, PeerAccessStays) {
  ASSERT_EQ(orDeviceEnablePeerAccess(1, 0), orSuccess);
  ASSERT_EQ(orDeviceReset(), orSuccess);
  EXPECT_EQ(orDeviceDisablePeerAccess(1), orSuccess);
}

TEST_F(ResetTest, PinnedMemoryStays) {
  PinnedArray<char> pinned(kBytes, 'x');
  std::vector<char> registered(kBytes, 'y');
  ASSERT_EQ(orHostRegister(registered.data(), kBytes, 0), orSuccess);
  ASSERT_EQ(orDeviceReset(), orSuccess);

  for (void* pointer : {pinned.data(), registered.data()}) {
    orPointerAttributes attributes{};
    ASSERT_EQ(orPointerGetAttributes(&attributes, pointer), orSuccess);
    EXPECT_EQ(attributes.type, orMemoryTypeHost);
  }
  EXPECT_EQ(pinned[kBytes - 1], 'x');
  EXPECT_EQ(orHostUnregister(registered.data()), orSuccess);
}

TEST_F(ResetTest, AnotherDeviceKeepsWhatItHas) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  Stream stream;
  Event event;
  DeviceArray<char> array(kBytes);
  ASSERT_EQ(orMemset(array.data(), 7, kBytes), orSuccess);
  ASSERT_EQ(orDeviceEnablePeerAccess(0, 0), orSuccess);

  ASSERT_EQ(orSetDevice(0), orSuccess);
  ASSERT_EQ(orDeviceReset(), orSuccess);

  ASSERT_EQ(orSetDevice(1), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(orEventRecord(event, stream), orSuccess);
  EXPECT_EQ(array.read(), std::vector<char>(kBytes, 7));
  EXPECT_EQ(orDeviceDisablePeerAccess(0), orSuccess);
}

TEST_F(ResetTest, AnotherDevicesErrorStays) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  BrokenDevice broken;
  ASSERT_EQ(orSetDevice(0), orSuccess);
  ASSERT_EQ(orDeviceReset(), orSuccess);
  ASSERT_EQ(orSetDevice(1), orSuccess);
  EXPECT_EQ(orDeviceSynchronize(), orErrorAssert);
}

TEST_F(ResetTest, WorkOfAnotherDeviceIsNeitherDroppedNorWaitedFor) {
  bool ran = false;
  Gate gate(defaultStream(1));
  ASSERT_EQ(
      orLaunchKernel(defaultStream(1), [&ran] { ran = true; }), orSuccess);
  ASSERT_EQ(orDeviceReset(), orSuccess);
  EXPECT_EQ(orStreamQuery(defaultStream(1)), orErrorNotReady);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(defaultStream(1)), orSuccess);
  EXPECT_TRUE(ran);
}

TEST_F(ResetTest, QueuedKernelsAndCopiesAreDropped) {
  PinnedArray<char> pinned(kBytes, 'x');
  DeviceArray<char> array(kBytes);
  ASSERT_EQ(orMemset(array.data(), 'y', kBytes), orSuccess);
  std::atomic<bool> ran{false};
  const auto owned = std::make_shared<int>(0);
  const orStream_t stream = defaultStream();
  Gate gate(stream);
  ASSERT_EQ(orLaunchKernel(stream, [&ran, owned] { ran = true; }), orSuccess);
  ASSERT_EQ(
      orMemcpyAsync(
          pinned.data(), array.data(), kBytes, orMemcpyDeviceToHost, stream),
      orSuccess);

  orError_t status = orErrorNotReady;
  waitsForGate(gate, [&status] { status = orDeviceReset(); });
  EXPECT_EQ(status, orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_FALSE(ran);
  EXPECT_EQ(owned.use_count(), 1) << "dropped callables are destroyed";
  EXPECT_EQ(pinned[0], 'x');
}

// The record that the other device waits for is never reached, only dropped.
TEST_F(ResetTest, AnotherDeviceDoesNotWaitForDroppedWork) {
  bool ran = false;
  const orStream_t held = defaultStream(0);
  const orStream_t waiting = defaultStream(1);
  Event event;
  Gate gate(held);
  ASSERT_EQ(orLaunchKernel(held, [] {}), orSuccess);
  ASSERT_EQ(orEventRecord(event, held), orSuccess);
  ASSERT_EQ(orStreamWaitEvent(waiting, event, 0), orSuccess);
  ASSERT_EQ(orLaunchKernel(waiting, [&ran] { ran = true; }), orSuccess);

  orError_t status = orErrorNotReady;
  waitsForGate(gate, [&status] { status = orDeviceReset(); });
  EXPECT_EQ(status, orSuccess);
  EXPECT_EQ(orStreamSynchronize(waiting), orSuccess);
  EXPECT_TRUE(ran);
}

// What the callback of the tests below has seen.
std::vector<int> devicesReset;
std::promise<void>* opensKernel = nullptr;

TEST_F(ResetTest, EveryResetCallsTheCallbackWithItsDevice) {
  devicesReset.clear();
  orSetResetCallback([](int device) { devicesReset.push_back(device); });
  ASSERT_EQ(orSetDevice(1), orSuccess);
  EXPECT_EQ(orDeviceReset(), orSuccess);
  ASSERT_EQ(orSetDevice(0), orSuccess);
  EXPECT_EQ(orDeviceReset(), orSuccess);
  orSetResetCallback(nullptr);
  EXPECT_EQ(orDeviceReset(), orSuccess);
  EXPECT_EQ(devicesReset, (std::vector{1, 0}));
}

// Else whoever runs kernels elsewhere could not end what the reset waits for.
TEST_F(ResetTest, TheCallbackComesBeforeTheWaitAndAfterTheQueueIsDropped) {
  std::promise<void> open;
  opensKernel = &open;
  std::atomic<bool> ran{false};
  auto waiting = [wait = open.get_future().share()] { wait.wait(); };
  ASSERT_EQ(orLaunchKernel(defaultStream(), waiting), orSuccess);
  ASSERT_EQ(orLaunchKernel(defaultStream(), [&ran] { ran = true; }), orSuccess);
  orSetResetCallback([](int) { opensKernel->set_value(); });
  EXPECT_EQ(orDeviceReset(), orSuccess);
  orSetResetCallback(nullptr);
  EXPECT_FALSE(ran);
}

TEST(ResetChildTest, SettingTheCallbackStartsNothing) {
  auto body = [] {
    setenv("OPENREG_DEVICE_COUNT", "nonsense", 1);
    orSetResetCallback([](int) {});
    CHILD_REQUIRE(orPeekAtLastError() == orSuccess);
    setenv("OPENREG_DEVICE_COUNT", "1", 1);
    return orDeviceReset() == orSuccess;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ResetChildTest, ResettingIsAllowedAsTheFirstCall) {
  auto body = [] { return orDeviceReset() == orSuccess; };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ResetChildTest, AKernelThatRunsTooLongKeepsTheDeviceAndBreaksIt) {
  auto body = [] {
    setenv("OPENREG_WAIT_TIMEOUT", "0.05", 1);
    setenv("OPENREG_SCHEDULE", "async", 1);
    void* memory = nullptr;
    CHILD_REQUIRE(orMalloc(&memory, kBytes) == orSuccess);
    std::atomic<bool> running{false};
    std::promise<void> open;
    auto kernel = [&running, wait = open.get_future().share()] {
      running = true;
      running.notify_all();
      wait.wait();
    };
    CHILD_REQUIRE(orLaunchKernel(defaultStream(), kernel) == orSuccess);
    running.wait(false);
    CHILD_REQUIRE(orDeviceReset() == orErrorTimeout);
    orPointerAttributes attributes{};
    CHILD_REQUIRE(orPointerGetAttributes(&attributes, memory) == orSuccess);
    void* more = nullptr;
    CHILD_REQUIRE(orMalloc(&more, kBytes) != orSuccess);

    open.set_value();
    orError_t status = orErrorTimeout;
    while (status == orErrorTimeout) {
      status = orDeviceReset();
    }
    CHILD_REQUIRE(status == orSuccess);
    CHILD_REQUIRE(orFree(memory) == orSuccess);
    CHILD_REQUIRE(orMalloc(&more, kBytes) == orSuccess);
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ResetChildTest, SynchronizingGivesUpAfterTheTimeout) {
  auto body = [] {
    setenv("OPENREG_WAIT_TIMEOUT", "0.05", 1);
    bool ran = false;
    Gate gate(defaultStream());
    orLaunchKernel(defaultStream(), [&ran] { ran = true; });
    CHILD_REQUIRE(orDeviceSynchronize() == orErrorTimeout);
    CHILD_REQUIRE(detailHas("OPENREG_WAIT_TIMEOUT"));
    CHILD_REQUIRE(orGetLastError() == orErrorTimeout);

    gate.open();
    orError_t status = orErrorTimeout;
    while (status == orErrorTimeout) {
      status = orDeviceSynchronize();
    }
    CHILD_REQUIRE(status == orSuccess); // waiting too long breaks nothing
    return ran;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

} // namespace
} // namespace openreg::testing
