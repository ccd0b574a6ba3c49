// The block pool: freed blocks that it keeps back.
#include "fake_device.h"

namespace openreg::testing {
namespace {

class BlockPoolQuarantineTest : public BlockPoolTest {
 protected:
  void SetUp() override {
    pool.quarantineFreedBlocks(true);
  }
  void TearDown() override {
    pool.quarantineFreedBlocks(false);
  }
};

TEST_F(BlockPoolQuarantineTest, AFreedBlockIsNotHandedOutAgain) {
  char* first = take(512);
  pool.free(first);
  EXPECT_NE(take(512), first);
  EXPECT_FALSE(pool.free(first)) << "it was freed already";
  EXPECT_EQ(pool.stats().allocatedBytes[PoolStats::All].current, 512);
  EXPECT_EQ(pool.stats().activeBytes[PoolStats::All].current, 1024);

  pool.quarantineFreedBlocks(false);
  EXPECT_EQ(take(512), first);
}

TEST_F(BlockPoolQuarantineTest, TheOldestLeaveItWhenThereAreTooMany) {
  char* first = take(512 << 10);
  pool.free(first);
  char* second = take(512 << 10);
  EXPECT_NE(second, first);
  pool.free(second);
  pool.free(take(512 << 10)); // more than 1 MiB
  EXPECT_EQ(take(512 << 10), first);
}

TEST_F(BlockPoolQuarantineTest, ItMayBeHalfOfWhatIsAllocated) {
  take(8 * kMiB);
  char* first = take(3 * kMiB);
  pool.free(first);
  EXPECT_NE(take(3 * kMiB), first);
}

TEST_F(BlockPoolQuarantineTest, OtherStreamsAreWaitedForWhenItEnds) {
  char* pointer = take(512);
  pool.recordStream(pointer, &other);
  pool.free(pointer);
  EXPECT_EQ(device.events(), 0u);
  pool.quarantineFreedBlocks(false);
  EXPECT_EQ(device.events(), 1u);
  EXPECT_NE(take(512), pointer);
  other.runAll();
  EXPECT_EQ(take(512), pointer);
}

TEST_F(BlockPoolQuarantineTest, EmptyCacheEndsIt) {
  pool.free(take(512));
  pool.emptyCache();
  EXPECT_EQ(reservedBytes(), 0);
}

TEST(BlockPoolQuarantineCapacityTest, ARequestThatDoesNotFitEndsIt) {
  FakeStream stream;
  FakeDevice device(30 * kMiB);
  TestPool pool(device);
  pool.quarantineFreedBlocks(true);
  void* const large = pool.allocate(20 * kMiB, &stream);
  void* const freed = pool.allocate(10 * kMiB, &stream);
  pool.free(freed);
  EXPECT_NE(pool.allocate(10 * kMiB, &stream), nullptr);
  EXPECT_NE(large, nullptr);
}

TEST_F(BlockPoolQuarantineTest, PrivatePoolsHaveNone) {
  const PoolId id{0, 1};
  pool.beginAllocateToPool(id, [](void*) { return true; });
  char* pointer = take(512);
  pool.free(pointer);
  EXPECT_EQ(take(512), pointer);
  pool.endAllocateToPool(id);
  pool.releasePool(id);
}

} // namespace
} // namespace openreg::testing
