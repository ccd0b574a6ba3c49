// A device whose executor is another process: where its memory is, how its loss is
// reported, and how it is taken back into service.
#include "support.h"

#include <atomic>

#include <sys/mman.h>

namespace openreg::testing {
namespace {

class LostDeviceTest : public ::testing::Test {
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

TEST_F(LostDeviceTest, MemoryIsFoundThroughItsDescriptor) {
  orDeviceMemory memory{};
  ASSERT_EQ(orDeviceGetMemory(&memory, 0), orSuccess);
  DeviceArray<int> array(16);
  ASSERT_EQ(orMemset(array.data(), 3, array.bytes()), orSuccess);

  auto* kernel = static_cast<char*>(orKernelPointer(array.data()));
  const ptrdiff_t offset = kernel - static_cast<char*>(memory.base);
  ASSERT_GE(offset, 0);
  ASSERT_LT(static_cast<size_t>(offset), memory.bytes);
  void* mapped =
      mmap(nullptr, memory.bytes, PROT_READ, MAP_SHARED, memory.descriptor, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(static_cast<char*>(mapped)[offset], 3);
  munmap(mapped, memory.bytes);

  orDeviceMemory other{};
  ASSERT_EQ(orDeviceGetMemory(&other, 1), orSuccess);
  EXPECT_NE(other.base, memory.base);
}

TEST_F(LostDeviceTest, BadArgumentsAreRefused) {
  orDeviceMemory memory{};
  EXPECT_EQ(orDeviceGetMemory(nullptr, 0), orErrorInvalidValue);
  EXPECT_EQ(orDeviceGetMemory(&memory, 2), orErrorInvalidDevice);
  EXPECT_EQ(orDeviceFail(2, orErrorDeviceLost, ""), orErrorInvalidDevice);
  EXPECT_EQ(orDeviceFail(0, orSuccess, ""), orErrorInvalidValue);
  EXPECT_EQ(
      orDeviceFail(0, static_cast<orError_t>(12345), ""), orErrorInvalidValue);
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
}

TEST_F(LostDeviceTest, ALostDeviceFailsEveryUseWithTheSameSentence) {
  DeviceArray<int> array(16);
  ASSERT_EQ(orDeviceFail(0, orErrorDeviceLost, "it fell off"), orSuccess);
  ASSERT_EQ(orDeviceFail(0, orErrorAssert, "the first counts"), orSuccess);
  EXPECT_EQ(orDeviceSynchronize(), orErrorDeviceLost);
  EXPECT_TRUE(detailHas("it fell off"));
  EXPECT_EQ(orMemset(array.data(), 0, array.bytes()), orErrorDeviceLost);
  EXPECT_EQ(orLaunchKernel(defaultStream(), [] {}), orErrorDeviceLost);

  ASSERT_EQ(orSetDevice(1), orSuccess);
  EXPECT_EQ(orDeviceSynchronize(), orSuccess) << "the other device lives on";
}

TEST_F(LostDeviceTest, ARecoveredDeviceKeepsItsHandles) {
  DeviceArray<int> array(16);
  Stream stream;
  Event event;
  ASSERT_EQ(orMemset(array.data(), 1, array.bytes()), orSuccess);
  ASSERT_EQ(orEventRecord(event, stream), orSuccess);
  ASSERT_EQ(orDeviceFail(0, orErrorDeviceLost, nullptr), orSuccess);
  ASSERT_EQ(orDeviceRecover(), orSuccess);

  EXPECT_EQ(orEventQuery(event), orSuccess);
  bool ran = false;
  ASSERT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_TRUE(ran);
  ASSERT_EQ(orMemset(array.data(), 0, array.bytes()), orSuccess);
  EXPECT_EQ(array.read(), std::vector<int>(16, 0));
}

TEST_F(LostDeviceTest, RecoveringDropsWhatIsQueued) {
  const orStream_t stream = defaultStream();
  std::atomic<bool> ran{false};
  Gate gate(stream);
  ASSERT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
  orError_t status = orErrorNotReady;
  waitsForGate(gate, [&status] { status = orDeviceRecover(); });
  EXPECT_EQ(status, orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_FALSE(ran);
}

TEST_F(LostDeviceTest, RecoveringIsNotForKernels) {
  orError_t status = orSuccess;
  auto kernel = [&status] { status = orDeviceRecover(); };
  ASSERT_EQ(orLaunchKernel(defaultStream(), kernel), orSuccess);
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(status, orErrorNotPermitted);
}

} // namespace
} // namespace openreg::testing
