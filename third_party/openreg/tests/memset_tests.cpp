// orMemset() and orMemsetAsync().
#include "support.h"

namespace openreg::testing {
namespace {

constexpr size_t kBytes =
    8192; // whole pages, so that one byte more leaves them

using Bytes = std::vector<unsigned char>;

class MemsetTest : public ::testing::TestWithParam<bool> {
 protected:
  orError_t set(void* pointer, int value, size_t count) {
    if (GetParam()) {
      return orMemset(pointer, value, count);
    }
    const orStream_t stream = defaultStream();
    const orError_t status = orMemsetAsync(pointer, value, count, stream);
    return status == orSuccess ? orStreamSynchronize(stream) : status;
  }

  DeviceArray<unsigned char> array_{kBytes};
};

TEST_P(MemsetTest, EveryByteOfTheRangeIsSetAndNoOther) {
  ASSERT_EQ(set(array_.data(), 1, kBytes), orSuccess);
  EXPECT_EQ(array_.read(), Bytes(kBytes, 1));
  ASSERT_EQ(set(array_.data() + 100, 2, 50), orSuccess);
  Bytes expected(kBytes, 1);
  std::fill_n(expected.begin() + 100, 50, 2);
  EXPECT_EQ(array_.read(), expected);
}

TEST_P(MemsetTest, OnlyTheLowByteOfTheValueCounts) {
  ASSERT_EQ(set(array_.data(), 0x1ab, kBytes), orSuccess);
  EXPECT_EQ(array_.read(), Bytes(kBytes, 0xab));
  ASSERT_EQ(set(array_.data(), -1, kBytes), orSuccess);
  EXPECT_EQ(array_.read(), Bytes(kBytes, 0xff));
}

TEST_P(MemsetTest, MoreThanOneStepOfBytesIsSet) {
  constexpr size_t kLarge = (size_t{3} << 20) + 5;
  DeviceArray<unsigned char> large(kLarge);
  ASSERT_EQ(set(large.data(), 7, kLarge), orSuccess);
  EXPECT_TRUE(large.read() == Bytes(kLarge, 7));
}

TEST_P(MemsetTest, MemoryOfAnotherDeviceIsSet) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  {
    DeviceArray<unsigned char> far(kBytes);
    ASSERT_EQ(orSetDevice(0), orSuccess);
    EXPECT_EQ(set(far.data(), 9, kBytes), orSuccess);
    EXPECT_EQ(far.read(), Bytes(kBytes, 9));
  }
}

TEST_P(MemsetTest, OnlyLiveDeviceMemoryCanBeSet) {
  unsigned char local = 5;
  PinnedArray<unsigned char> pinned(1, 5);
  void* freed = nullptr;
  ASSERT_EQ(orMalloc(&freed, kBytes), orSuccess);
  ASSERT_EQ(orFree(freed), orSuccess);
  for (void* pointer :
       {static_cast<void*>(&local), static_cast<void*>(pinned.data()), freed}) {
    EXPECT_EQ(set(pointer, 1, 1), orErrorInvalidValue);
    EXPECT_TRUE(detailHas(hex(pointer)));
  }
  EXPECT_EQ(set(nullptr, 1, 1), orErrorInvalidValue);
  EXPECT_EQ(local, 5);
  EXPECT_EQ(pinned[0], 5);
}

TEST_P(MemsetTest, ARangeThatLeavesItsAllocationFails) {
  const std::pair<size_t, size_t> ranges[] = {
      {0, kBytes + 1}, {1, kBytes}, {kBytes - 1, 2}, {1, SIZE_MAX}};
  for (const auto& [offset, count] : ranges) {
    unsigned char* start = array_.data() + offset;
    EXPECT_EQ(set(start, 1, count), orErrorInvalidValue);
    EXPECT_TRUE(detailHas(hex(start)));
    EXPECT_TRUE(detailHas(std::to_string(count)));
  }
}

TEST_P(MemsetTest, ZeroBytesAreSetAnywhere) {
  char local = 5;
  EXPECT_EQ(set(nullptr, 1, 0), orSuccess);
  EXPECT_EQ(set(&local, 1, 0), orSuccess);
  EXPECT_EQ(local, 5);
}

TEST_P(MemsetTest, ABrokenDeviceGivesItsError) {
  BrokenDevice broken;
  EXPECT_EQ(set(array_.data(), 1, kBytes), orErrorAssert);
  EXPECT_TRUE(detailHas(BrokenDevice::kMessage));
}

INSTANTIATE_TEST_SUITE_P(
    Ways,
    MemsetTest,
    ::testing::Bool(),
    [](const auto& sync) { return sync.param ? "Sync" : "Async"; });

TEST(MemsetAsyncTest, AStreamThatIsNullOrDestroyedFails) {
  DeviceArray<char> array(1);
  orStream_t destroyed = nullptr;
  ASSERT_EQ(orStreamCreate(&destroyed), orSuccess);
  ASSERT_EQ(orStreamDestroy(destroyed), orSuccess);
  for (orStream_t stream : {orStream_t(nullptr), destroyed}) {
    EXPECT_EQ(orMemsetAsync(array.data(), 1, 1, stream), orErrorInvalidHandle);
    EXPECT_EQ(orMemsetAsync(array.data(), 1, 0, stream), orErrorInvalidHandle);
  }
}

TEST(MemsetAsyncTest, ReturnsAtOnceAndRunsInStreamOrder) {
  Stream stream;
  DeviceArray<unsigned char> array(kBytes);
  PinnedArray<unsigned char> seen(1, 0);
  ASSERT_EQ(orMemset(array.data(), 1, kBytes), orSuccess);
  Gate gate(stream);
  ASSERT_EQ(
      orMemcpyAsync(seen.data(), array.data(), 1, orMemcpyDeviceToHost, stream),
      orSuccess);
  ASSERT_EQ(orMemsetAsync(array.data(), 2, kBytes, stream), orSuccess);
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(seen[0], 1);
  EXPECT_EQ(array.read(), Bytes(kBytes, 2));
}

} // namespace
} // namespace openreg::testing
