// A device whose executor is another process: where its memory is, and how its loss
// is reported.
#include "support.h"

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

} // namespace
} // namespace openreg::testing
