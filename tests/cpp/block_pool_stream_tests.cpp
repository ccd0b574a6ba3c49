// The block pool and streams. Free of torch, so that it also runs under the
// sanitizers.
#include "block_pool_fixture.h"

namespace openreg::testing {
namespace {

TEST_F(BlockPoolTest, AFreedBlockIsReusedByItsOwnStreamAtOnce) {
  char* pointer = take(512);
  pool.free(pointer);
  EXPECT_EQ(take(512), pointer);
}

TEST_F(BlockPoolTest, AFreedBlockIsNotReusedByAnotherStream) {
  char* pointer = take(512, stream);
  pool.free(pointer);
  EXPECT_NE(take(512, other), pointer);
  EXPECT_EQ(device.segments.size(), 2u);
}

TEST_F(BlockPoolTest, EmptyCacheMakesMemoryOfOneStreamUsableByAnother) {
  pool.free(take(10 * kMiB, stream));
  pool.emptyCache();
  EXPECT_EQ(reservedBytes(), 0);
  take(10 * kMiB, other);
  EXPECT_EQ(reservedBytes(), int64_t(10 * kMiB));
}

TEST_F(BlockPoolTest, ABlockUsedByAnotherStreamIsParkedUntilThatHasRun) {
  char* pointer = take(512);
  EXPECT_TRUE(pool.recordStream(pointer, &other));
  EXPECT_TRUE(pool.free(pointer));
  EXPECT_NE(take(512), pointer);
  const PoolStats parked = pool.stats();
  EXPECT_EQ(parked.allocation[PoolStats::All].current, 1);
  EXPECT_EQ(parked.active[PoolStats::All].current, 2);
  EXPECT_EQ(parked.activeBytes[PoolStats::All].current, 1024);

  other.runAll();
  EXPECT_EQ(take(512), pointer);
  EXPECT_EQ(device.events(), 0u);
}

TEST_F(BlockPoolTest, AParkedBlockWaitsForEveryStreamThatUsedIt) {
  char* pointer = take(512);
  pool.recordStream(pointer, &other);
  pool.recordStream(pointer, &third);
  pool.free(pointer);
  EXPECT_EQ(device.events(), 2u);
  third.runAll();
  EXPECT_NE(take(512), pointer);
  EXPECT_EQ(device.events(), 1u);
  other.runAll();
  EXPECT_EQ(take(512), pointer);
}

// What the kernel allocates it uses at once, before work that is queued behind it.
TEST_F(BlockPoolTest, ABlockFreedWhileAKernelRunsElsewhereIsParked) {
  char* pointer = take(512);
  device.busyElsewhere = &stream;
  EXPECT_TRUE(pool.free(pointer));
  EXPECT_NE(take(512), pointer);
  stream.runAll();
  EXPECT_EQ(take(512), pointer);

  device.busyElsewhere = nullptr;
  EXPECT_TRUE(pool.free(pointer));
  EXPECT_EQ(take(512), pointer);
}

TEST_F(BlockPoolTest, AParkedBlockIsNotJoinedWithItsNeighbours) {
  char* first = take(512);
  char* second = take(512);
  pool.recordStream(first, &other);
  pool.free(first);
  pool.free(second);
  EXPECT_EQ(take(512), second);
  pool.free(second);
  other.runAll();
  EXPECT_EQ(take(1024), first);
}

TEST_F(BlockPoolTest, TheOwnStreamAndTheSameStreamTwiceNeedNoEvent) {
  char* pointer = take(512);
  EXPECT_TRUE(pool.recordStream(pointer, &stream));
  pool.free(pointer);
  EXPECT_EQ(device.events(), 0u);

  pointer = take(512);
  EXPECT_TRUE(pool.recordStream(pointer, &other));
  EXPECT_TRUE(pool.recordStream(pointer, &other));
  pool.free(pointer);
  EXPECT_EQ(device.events(), 1u);
  pool.emptyCache();
}

TEST_F(BlockPoolTest, StreamsNotedForABlockAreForgottenWhenItIsHandedOutAgain) {
  char* pointer = take(512);
  pool.recordStream(pointer, &other);
  pool.free(pointer);
  other.runAll();
  ASSERT_EQ(take(512), pointer);
  pool.free(pointer);
  EXPECT_EQ(device.events(), 0u);
}

TEST_F(BlockPoolTest, ABlockIsFreeAtOnceIfNoEventCanBeRecorded) {
  char* pointer = take(512);
  pool.recordStream(pointer, &other);
  device.failRecord = true;
  EXPECT_TRUE(pool.free(pointer));
  EXPECT_EQ(take(512), pointer);
}

} // namespace
} // namespace openreg::testing
