// The block pool's limit and settings. Free of torch, so that it also runs under
// the sanitizers.
#include "fake_device.h"

namespace openreg::testing {
namespace {

class BlockPoolSettingsTest : public ::testing::Test {
 protected:
  char* take(size_t bytes) {
    return static_cast<char*>(pool.allocate(bytes, &stream));
  }
  void set(void (*change)(PoolConfig&)) {
    PoolConfig config;
    change(config);
    pool.setConfig(config);
  }
  size_t blockSize(size_t bytes) {
    char* pointer = take(bytes);
    const auto size = pool.stats().allocatedBytes[PoolStats::All].current;
    pool.free(pointer);
    return static_cast<size_t>(size);
  }
  size_t reserved() {
    const PoolStats stats = pool.stats();
    return static_cast<size_t>(stats.reservedBytes[PoolStats::All].current);
  }

  FakeStream stream, other;
  FakeDevice device;
  TestPool pool{device};
};

// --- the limit ----------------------------------------------------------------

TEST_F(BlockPoolSettingsTest, AnAllocationBeyondTheLimitIsOutOfMemory) {
  pool.setLimit(30 * kMiB);
  char* kept = take(20 * kMiB);
  EXPECT_EQ(take(12 * kMiB), nullptr);
  EXPECT_EQ(device.mapped, std::vector{20 * kMiB}); // the device was not asked
  const PoolStats stats = pool.stats();
  EXPECT_EQ(stats.retries, 1);
  EXPECT_EQ(stats.outOfMemory, 1);
  EXPECT_EQ(stats.waitsForAll, 1);
  EXPECT_NE(take(10 * kMiB), nullptr); // up to the last byte
  EXPECT_TRUE(pool.free(kept));
}

TEST_F(BlockPoolSettingsTest, BeyondTheLimitTheCacheIsGivenBackFirst) {
  pool.setLimit(1024 * kMiB);
  pool.free(take(512 * kMiB));
  EXPECT_NE(take(700 * kMiB), nullptr);
  const PoolStats stats = pool.stats();
  EXPECT_EQ(reserved(), 700 * kMiB);
  EXPECT_EQ(stats.retries, 1);
  EXPECT_EQ(stats.outOfMemory, 0);
  EXPECT_EQ(stats.unmaps, 1);
}

TEST_F(BlockPoolSettingsTest, WithoutWaitingTheLimitHoldsToo) {
  pool.setLimit(30 * kMiB);
  pool.free(take(20 * kMiB));
  EXPECT_EQ(pool.tryAllocate(22 * kMiB, &stream), nullptr);
  EXPECT_EQ(pool.stats().retries, 0);
  pool.setLimit(SIZE_MAX);
  void* pointer = pool.tryAllocate(22 * kMiB, &stream);
  EXPECT_NE(pointer, nullptr);
  pool.free(pointer);
}

// --- rounding to parts of powers of two ---------------------------------------

TEST_F(BlockPoolSettingsTest, SizesAreRoundedToPartsOfPowersOfTwo) {
  set([](PoolConfig& config) { config.roundupPower2Divisions.fill(4); });
  const std::pair<size_t, size_t> cases[] = {
      {1, 512},
      {1200, 1536}, // a part would be less than a block
      {2048, 2048},
      {2049, 2560},
      {5000, 5120},
      {700 << 10, 768 << 10},
      {kMiB, kMiB},
      {3 * kMiB + 5, 3 * kMiB + (512 << 10)},
      {100 * kMiB, 112 * kMiB},
      {130 * kMiB, 160 * kMiB}}; // as a real GPU was seen to do
  for (const auto& [bytes, size] : cases) {
    EXPECT_EQ(blockSize(bytes), size) << bytes;
  }
}

TEST_F(BlockPoolSettingsTest, EachIntervalOfPowersHasItsOwnParts) {
  set([](PoolConfig& config) {
    config.roundupPower2Divisions[1] = 2; // from 2 MiB to 4 MiB
    config.roundupPower2Divisions[15] = 8; // from 32 GiB on
  });
  constexpr size_t kGiB = 1024 * kMiB;
  EXPECT_EQ(blockSize(kMiB + 1), kMiB + 512);
  EXPECT_EQ(blockSize(2 * kMiB + 1), 3 * kMiB);
  EXPECT_EQ(blockSize(4 * kMiB + 1), 4 * kMiB + 512);
  EXPECT_EQ(blockSize(33 * kGiB), 36 * kGiB);
  EXPECT_EQ(blockSize(65 * kGiB), 72 * kGiB);
}

TEST_F(BlockPoolSettingsTest, HugeSizesDoNotOverflowWhenRounded) {
  set([](PoolConfig& config) { config.roundupPower2Divisions.fill(2); });
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 2 * kMiB, SIZE_MAX / 4 * 3}) {
    EXPECT_EQ(take(bytes), nullptr) << bytes;
  }
}

// --- oversize blocks ----------------------------------------------------------

TEST_F(BlockPoolSettingsTest, OversizeBlocksAreForOversizeRequestsOnly) {
  set([](PoolConfig& config) { config.maxSplitSize = 32 * kMiB; });
  char* large = take(40 * kMiB);
  pool.free(large);
  EXPECT_NE(take(10 * kMiB), large);
  EXPECT_EQ(take(34 * kMiB), large);
  EXPECT_EQ(pool.stats().inactiveSplit[PoolStats::All].current, 0); // not split
}

TEST_F(BlockPoolSettingsTest, OversizeBlocksAreNotForMuchSmallerRequests) {
  set([](PoolConfig& config) {
    config.maxSplitSize = 32 * kMiB;
    config.maxNonSplitRounding = 20 * kMiB;
  });
  char* large = take(60 * kMiB);
  pool.free(large);
  EXPECT_NE(take(40 * kMiB), large);
  EXPECT_EQ(take(40 * kMiB + 512), large);
}

TEST_F(BlockPoolSettingsTest, BlocksBelowTheSplitSizeAreSplitAsEver) {
  set([](PoolConfig& config) { config.maxSplitSize = 32 * kMiB; });
  char* first = take(30 * kMiB);
  pool.free(first);
  EXPECT_EQ(take(10 * kMiB), first);
  EXPECT_EQ(take(20 * kMiB), first + 10 * kMiB);
}

TEST_F(BlockPoolSettingsTest, OversizeBlocksAndSegmentsAreCounted) {
  set([](PoolConfig& config) { config.maxSplitSize = 32 * kMiB; });
  char* first = take(40 * kMiB);
  char* second = take(33 * kMiB);
  take(20 * kMiB);
  PoolStats stats = pool.stats();
  EXPECT_EQ(stats.oversizeAllocations.current, 2);
  EXPECT_EQ(stats.oversizeSegments.current, 2);
  pool.free(first);
  pool.free(second);
  pool.emptyCache();
  pool.resetAccumulatedStats();
  stats = pool.stats();
  EXPECT_EQ(stats.oversizeAllocations.current, 0);
  EXPECT_EQ(stats.oversizeAllocations.peak, 2);
  EXPECT_EQ(stats.oversizeAllocations.allocated, 0);
  EXPECT_EQ(stats.oversizeSegments.current, 0);
  pool.resetPeakStats();
  EXPECT_EQ(pool.stats().oversizeSegments.peak, 0);
}

TEST_F(BlockPoolSettingsTest, OversizeSegmentsAreGivenBackBeforeTheWholeCache) {
  set([](PoolConfig& config) { config.maxSplitSize = 32 * kMiB; });
  pool.setLimit(200 * kMiB);
  char* sizes[] = {take(40 * kMiB), take(60 * kMiB), take(80 * kMiB)};
  char* small = take(512);
  for (char* pointer : sizes) {
    pool.free(pointer);
  }
  take(100 * kMiB); // takes the place of 80 and 60: none is large enough
  EXPECT_EQ(reserved(), (40 + 2 + 100) * kMiB);
  EXPECT_EQ(pool.stats().retries, 0);
  take(70 * kMiB); // there is none left that would do: the cache goes
  EXPECT_EQ(reserved(), (2 + 100 + 70) * kMiB);
  EXPECT_EQ(pool.stats().retries, 1);
  EXPECT_TRUE(pool.free(small));
}

TEST_F(
    BlockPoolSettingsTest,
    OfSegmentsThatAreLargeEnoughTheSmallestGoesAlone) {
  set([](PoolConfig& config) { config.maxSplitSize = 32 * kMiB; });
  pool.setLimit(240 * kMiB);
  char* sizes[] = {take(40 * kMiB), take(90 * kMiB), take(100 * kMiB)};
  for (char* pointer : sizes) {
    pool.free(pointer);
  }
  take(60 * kMiB);
  EXPECT_EQ(reserved(), (40 + 100 + 60) * kMiB);
  EXPECT_EQ(pool.stats().retries, 0);
}

TEST_F(BlockPoolSettingsTest, TheSizeOfSharedLargeSegmentsCanBeSet) {
  set([](PoolConfig& config) { config.largeSegmentSize = 64 * kMiB; });
  take(2 * kMiB);
  EXPECT_EQ(device.mapped, std::vector{64 * kMiB});
}

// --- garbage ------------------------------------------------------------------

class BlockPoolGarbageTest : public BlockPoolSettingsTest {
 protected:
  // 110 MiB, of which an old and a young segment are not in use.
  void SetUp() override {
    pool.setLimit(200 * kMiB);
    set([](PoolConfig& config) { config.garbageCollectionThreshold = 0.9; });
    take(2 * kMiB); // in a segment of 20 MiB
    young = take(30 * kMiB);
    old = take(30 * kMiB);
    used = take(30 * kMiB);
    pool.free(old);
    for (int i = 0; i < 3; ++i) {
      pool.free(take(2 * kMiB));
    }
    pool.free(young);
  }
  bool isMapped(char* segment) {
    return device.segments.count(segment) == 1;
  }

  char *young, *old, *used;
};

TEST_F(
    BlockPoolGarbageTest,
    WhatIsUnusedForLongerGoesBeforeANewSegmentIsMapped) {
  set([](PoolConfig& config) { config.garbageCollectionThreshold = 0.5; });
  take(40 * kMiB); // 10 MiB are beyond the threshold
  EXPECT_FALSE(isMapped(old));
  EXPECT_TRUE(isMapped(young));
  EXPECT_TRUE(isMapped(used));
  EXPECT_EQ(pool.stats().retries, 0);
}

TEST_F(BlockPoolGarbageTest, MoreGoesUntilTheThresholdIsKept) {
  set([](PoolConfig& config) { config.garbageCollectionThreshold = 0.3; });
  take(40 * kMiB); // 50 MiB are beyond the threshold
  EXPECT_FALSE(isMapped(old));
  EXPECT_FALSE(isMapped(young));
  EXPECT_TRUE(isMapped(used));
  EXPECT_EQ(pool.stats().retries, 0);
}

// The pool uses what it knows of blocks again for others, in other pools too.
TEST_F(BlockPoolGarbageTest, ABlockIsAsOldAsItsLastUse) {
  const PoolId mine{0, 1};
  pool.beginAllocateToPool(mine, [](void*) { return true; });
  for (int i = 0; i < 100; ++i) {
    pool.free(take(30 * kMiB));
  }
  pool.endAllocateToPool(mine);
  pool.releasePool(mine);
  pool.emptyCache();
  pool.setLimit(SIZE_MAX); // nothing is collected for a while
  char* unused = take(50 * kMiB);
  pool.free(unused);
  pool.setLimit(100 * kMiB);
  set([](PoolConfig& config) { config.garbageCollectionThreshold = 0.5; });
  pool.free(used);
  take(52 * kMiB); // 50 MiB are beyond the threshold
  EXPECT_FALSE(isMapped(unused));
  EXPECT_FALSE(isMapped(used));
  EXPECT_EQ(pool.stats().retries, 0);
}

TEST_F(BlockPoolGarbageTest, NothingGoesIfTheThresholdIsKept) {
  take(40 * kMiB);
  EXPECT_EQ(pool.stats().unmaps, 0);
}

TEST_F(BlockPoolGarbageTest, NothingGoesIfABlockIsThere) {
  set([](PoolConfig& config) { config.garbageCollectionThreshold = 0.3; });
  EXPECT_EQ(take(30 * kMiB), std::min(old, young));
  EXPECT_EQ(pool.stats().unmaps, 0);
}

TEST_F(BlockPoolGarbageTest, NothingGoesWithoutWaiting) {
  set([](PoolConfig& config) { config.garbageCollectionThreshold = 0.3; });
  void* pointer = pool.tryAllocate(40 * kMiB, &stream);
  EXPECT_NE(pointer, nullptr);
  EXPECT_EQ(pool.stats().unmaps, 0);
  pool.free(pointer);
}

TEST_F(BlockPoolGarbageTest, NothingGoesWithoutALimit) {
  set([](PoolConfig& config) { config.garbageCollectionThreshold = 0.3; });
  pool.setLimit(SIZE_MAX);
  take(40 * kMiB);
  EXPECT_EQ(pool.stats().unmaps, 0);
}

} // namespace
} // namespace openreg::testing
