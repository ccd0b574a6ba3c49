// The block pool, driven by a device of the test's own. Free of torch, so that
// it also runs under the sanitizers.
#include "fake_device.h"

#include <algorithm>
#include <limits>

namespace openreg::testing {
namespace {

// --- sizes --------------------------------------------------------------------

TEST_F(BlockPoolTest, SizesAreRoundedTo512Bytes) {
  const std::pair<size_t, int64_t> cases[] = {
      {1, 512}, {511, 512}, {512, 512}, {513, 1024}, {kMiB - 1, kMiB}};
  for (const auto& [bytes, rounded] : cases) {
    char* pointer = take(bytes);
    EXPECT_EQ(allocatedBytes(), rounded) << bytes;
    EXPECT_TRUE(pool.free(pointer));
  }
  EXPECT_EQ(allocatedBytes(), 0);
}

TEST_F(BlockPoolTest, RequestedBytesAreThoseAskedFor) {
  take(1);
  take(513);
  EXPECT_EQ(pool.stats().requestedBytes[PoolStats::All].current, 514);
}

TEST_F(BlockPoolTest, SegmentsHaveTheSizesOfCuda) {
  const std::pair<size_t, size_t> cases[] = {
      {1, 2 * kMiB},
      {kMiB, 2 * kMiB},
      {kMiB + 1, 20 * kMiB},
      {10 * kMiB - 512, 20 * kMiB},
      {10 * kMiB, 10 * kMiB},
      {10 * kMiB + 1, 12 * kMiB},
      {11 * kMiB, 12 * kMiB},
      {12 * kMiB, 12 * kMiB},
      {100 * kMiB + 1, 102 * kMiB}};
  for (const auto& [bytes, segment] : cases) {
    device.mapped.clear();
    char* pointer = take(bytes);
    EXPECT_EQ(device.mapped, std::vector{segment}) << bytes;
    pool.free(pointer);
    pool.emptyCache();
  }
}

TEST_F(BlockPoolTest, SizesThatNoDeviceHasAreOutOfMemory) {
  take(512); // leaves a free piece that must not be handed out for them
  const size_t most = std::numeric_limits<size_t>::max();
  for (const size_t bytes :
       {most, most - 511, most - 512, most - kMiB, most / 2 + 1}) {
    EXPECT_EQ(pool.tryAllocate(bytes, &stream), nullptr) << bytes;
    EXPECT_EQ(pool.allocate(bytes, &stream), nullptr) << bytes;
  }
  EXPECT_EQ(pool.stats().outOfMemory, 5);
  EXPECT_EQ(allocatedBytes(), 512);
}

TEST_F(BlockPoolTest, BlocksOfOneMebibyteCountAsSmall) {
  take(kMiB);
  take(kMiB + 1);
  const PoolStats stats = pool.stats();
  EXPECT_EQ(stats.allocation[PoolStats::Small].current, 1);
  EXPECT_EQ(stats.allocation[PoolStats::Large].current, 1);
  EXPECT_EQ(stats.allocation[PoolStats::All].current, 2);
}

// --- splitting and joining ----------------------------------------------------

TEST_F(BlockPoolTest, SmallBlocksShareASegmentOneAfterTheOther) {
  char* first = take(512);
  EXPECT_EQ(take(1000), first + 512);
  EXPECT_EQ(take(512), first + 512 + 1024);
  EXPECT_EQ(device.segments.size(), 1u);
}

TEST_F(BlockPoolTest, ASmallSegmentIsUsedToTheLastByte) {
  char* first = take(kMiB);
  char* second = take(kMiB);
  EXPECT_EQ(second, first + kMiB);
  EXPECT_EQ(pool.stats().inactiveSplit[PoolStats::All].current, 0);
  take(512);
  EXPECT_EQ(device.segments.size(), 2u);
}

TEST_F(BlockPoolTest, TheRestOfALargeBlockIsSplitOffOnlyAboveOneMebibyte) {
  char* first = take(19 * kMiB - 512);
  EXPECT_EQ(device.mapped.back(), 20 * kMiB);
  EXPECT_EQ(allocatedBytes(), int64_t(19 * kMiB - 512));
  pool.free(first);

  first = take(19 * kMiB);
  EXPECT_EQ(device.segments.size(), 1u);
  EXPECT_EQ(allocatedBytes(), int64_t(20 * kMiB));
  EXPECT_EQ(pool.stats().inactiveSplit[PoolStats::All].current, 0);
}

TEST_F(BlockPoolTest, TheSmallestBlockThatFitsIsTaken) {
  char* large = take(4096);
  take(512); // keeps the two apart
  char* fits = take(2048);
  take(512);
  pool.free(large);
  pool.free(fits);
  EXPECT_EQ(take(2048), fits);
  EXPECT_EQ(take(2048), large);
}

TEST_F(BlockPoolTest, OfEqualBlocksTheOneAtTheLowestAddressIsTaken) {
  char* low = take(512);
  take(512);
  char* high = take(512);
  take(512);
  pool.free(low);
  pool.free(high);
  EXPECT_EQ(take(512), low);
  EXPECT_EQ(take(512), high);
}

TEST_F(BlockPoolTest, FreeNeighboursBecomeOneInWhateverOrder) {
  int order[] = {0, 1, 2};
  do {
    char* parts[] = {take(512), take(512), take(512)};
    for (int part : order) {
      EXPECT_TRUE(pool.free(parts[part]));
    }
    EXPECT_EQ(pool.stats().inactiveSplit[PoolStats::All].current, 0);
    EXPECT_EQ(device.segments.size(), 1u);
    pool.emptyCache(); // possible only if the segment is whole again
    EXPECT_EQ(device.segments.size(), 0u);
  } while (std::next_permutation(std::begin(order), std::end(order)));
}

TEST_F(BlockPoolTest, SegmentsAreNeverJoined) {
  char* first = take(10 * kMiB);
  char* second = take(10 * kMiB);
  pool.free(first);
  pool.free(second);
  take(20 * kMiB);
  EXPECT_EQ(device.segments.size(), 3u);
}

TEST_F(BlockPoolTest, SmallRequestsNeverTakeALargeBlock) {
  pool.free(take(2 * kMiB));
  take(512);
  EXPECT_EQ(device.segments.size(), 2u);
}

// --- streams ------------------------------------------------------------------

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

// --- wrong pointers -----------------------------------------------------------

TEST_F(BlockPoolTest, PointersThatAreNoBlocksAreRefused) {
  char* pointer = take(1024);
  for (char* wrong :
       {static_cast<char*>(nullptr), pointer + 512, pointer - 1}) {
    EXPECT_FALSE(pool.free(wrong));
    EXPECT_FALSE(pool.recordStream(wrong, &other));
  }
  EXPECT_TRUE(pool.free(pointer));
  EXPECT_FALSE(pool.free(pointer));
  EXPECT_FALSE(pool.recordStream(pointer, &other));
}

// --- statistics ---------------------------------------------------------------

TEST_F(BlockPoolTest, PeaksAndSumsCanBeReset) {
  pool.free(take(kMiB));
  take(512);
  pool.resetPeakStats();
  PoolStats stats = pool.stats();
  EXPECT_EQ(stats.allocatedBytes[PoolStats::All].peak, 512);
  EXPECT_EQ(
      stats.allocatedBytes[PoolStats::All].allocated, int64_t(kMiB + 512));
  EXPECT_EQ(stats.allocatedBytes[PoolStats::All].freed, int64_t(kMiB));

  pool.resetAccumulatedStats();
  stats = pool.stats();
  EXPECT_EQ(stats.allocatedBytes[PoolStats::All].allocated, 0);
  EXPECT_EQ(stats.allocatedBytes[PoolStats::All].freed, 0);
  EXPECT_EQ(stats.allocatedBytes[PoolStats::All].current, 512);
}

} // namespace
} // namespace openreg::testing
