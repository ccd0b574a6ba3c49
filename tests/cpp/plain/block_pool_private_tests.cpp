// Private pools of the block pool. Free of torch, so that it also runs under the
// sanitizers.
#include "fake_device.h"

namespace openreg::testing {
namespace {

constexpr PoolId kMine{0, 7}, kYours{0, 8};

class BlockPoolPrivateTest : public ::testing::Test {
 protected:
  char* take(size_t bytes, FakeStream& of) {
    return static_cast<char*>(pool.allocate(bytes, &of));
  }
  char* take(size_t bytes) {
    return take(bytes, stream);
  }
  void begin(PoolId id) {
    EXPECT_TRUE(pool.beginAllocateToPool(id, [](void*) { return true; }));
  }
  void beginFor(PoolId id, FakeStream& only) {
    EXPECT_TRUE(pool.beginAllocateToPool(
        id, [&only](void* asked) { return asked == &only; }));
  }
  void end(PoolId id) {
    EXPECT_TRUE(pool.endAllocateToPool(id));
  }
  void TearDown() override {
    for (const PoolId& id : {kMine, kYours}) {
      pool.endAllocateToPool(id);
      while (pool.releasePool(id)) {
      }
    }
  }

  FakeStream stream, other, third;
  FakeDevice device;
  TestPool pool{device};
};

// --- whose memory -------------------------------------------------------------

TEST_F(BlockPoolPrivateTest, PoolsDoNotUseEachOthersMemory) {
  char* common = take(512);
  pool.free(common);
  begin(kMine);
  char* mine = take(512);
  EXPECT_NE(mine, common);
  pool.free(mine);
  EXPECT_EQ(take(512), mine);
  end(kMine);
  pool.free(mine);
  begin(kYours);
  char* yours = take(512);
  EXPECT_NE(yours, mine);
  end(kYours);
  EXPECT_EQ(take(512), common);
  EXPECT_EQ(device.segments.size(), 3u);
}

TEST_F(BlockPoolPrivateTest, AFreedBlockGoesBackToItsPoolWhenever) {
  begin(kMine);
  char* mine = take(512);
  end(kMine);
  EXPECT_TRUE(pool.free(mine));
  EXPECT_NE(take(512), mine);
  begin(kMine);
  EXPECT_EQ(take(512), mine);
}

TEST_F(BlockPoolPrivateTest, TheFilterTellsWhichStreamsAllocateToThePool) {
  beginFor(kMine, stream);
  char* mine = take(512, stream);
  char* common = take(512, other);
  end(kMine);
  pool.free(mine);
  pool.free(common);
  EXPECT_NE(take(512, stream), mine);
  EXPECT_EQ(take(512, other), common);
}

TEST_F(BlockPoolPrivateTest, OfSeveralPoolsTheOneNamedLastIsUsed) {
  begin(kMine);
  beginFor(kYours, other);
  take(512, stream);
  take(5 * kMiB, other);
  const auto segments = pool.snapshot();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].pool, kMine);
  EXPECT_EQ(segments[1].pool, kYours);
}

TEST_F(BlockPoolPrivateTest, EndingWhatDidNotBeginIsRefused) {
  EXPECT_FALSE(pool.endAllocateToPool(kMine));
  begin(kMine);
  EXPECT_FALSE(pool.beginAllocateToPool(kMine, [](void*) { return true; }));
  EXPECT_EQ(pool.poolUsers(kMine), 1);
  end(kMine);
  EXPECT_FALSE(pool.endAllocateToPool(kMine));
}

// --- users --------------------------------------------------------------------

TEST_F(BlockPoolPrivateTest, UsersAreCounted) {
  EXPECT_EQ(pool.poolUsers(kMine), 0);
  EXPECT_FALSE(pool.releasePool(kMine));
  pool.retainPool(kMine);
  begin(kMine);
  end(kMine);
  EXPECT_EQ(pool.poolUsers(kMine), 2);
  EXPECT_TRUE(pool.releasePool(kMine));
  EXPECT_TRUE(pool.releasePool(kMine));
  EXPECT_FALSE(pool.releasePool(kMine));
}

TEST_F(BlockPoolPrivateTest, SegmentsGoBackOnlyWhenThePoolHasNoUsers) {
  begin(kMine);
  pool.free(take(512));
  end(kMine);
  pool.emptyCache();
  pool.emptyCache(kMine);
  EXPECT_EQ(device.segments.size(), 1u);
  pool.releasePool(kMine);
  EXPECT_EQ(device.segments.size(), 1u);
  pool.emptyCache();
  EXPECT_EQ(device.segments.size(), 0u);
}

TEST_F(BlockPoolPrivateTest, TheCacheOfOnePoolCanBeEmptiedAlone) {
  pool.free(take(512));
  begin(kMine);
  char* mine = take(512);
  pool.free(take(5 * kMiB));
  end(kMine);
  pool.releasePool(kMine);
  pool.emptyCache(kMine);
  EXPECT_EQ(device.segments.size(), 2u);
  EXPECT_TRUE(pool.free(mine)); // it outlived its pool
  pool.emptyCache(kMine);
  EXPECT_EQ(device.segments.size(), 1u);
  EXPECT_EQ(pool.snapshot().at(0).pool, PoolId{});
}

TEST_F(BlockPoolPrivateTest, APoolWithoutUsersCanHaveUsersAgain) {
  begin(kMine);
  char* mine = take(512);
  end(kMine);
  pool.releasePool(kMine);
  begin(kMine);
  pool.free(mine);
  EXPECT_EQ(take(512), mine);
}

// --- failures -----------------------------------------------------------------

TEST_F(BlockPoolPrivateTest, MemoryOfPoolsCountsForTheLimit) {
  pool.setLimit(30 * kMiB);
  begin(kMine);
  take(20 * kMiB);
  end(kMine);
  EXPECT_EQ(take(12 * kMiB), nullptr);
}

TEST_F(BlockPoolPrivateTest, WhileAllocatingToAPoolNothingIsTriedAgain) {
  pool.setLimit(30 * kMiB);
  pool.free(take(20 * kMiB));
  begin(kMine);
  EXPECT_EQ(take(12 * kMiB), nullptr);
  EXPECT_EQ(pool.stats().retries, 0);
  EXPECT_EQ(pool.stats().outOfMemory, 1);
  pool.emptyCache();
  EXPECT_EQ(device.segments.size(), 1u); // the common pool is left alone
  end(kMine);
  EXPECT_NE(take(12 * kMiB), nullptr);
}

TEST_F(BlockPoolPrivateTest, APoolCanBeTheLastResort) {
  pool.setLimit(20 * kMiB);
  begin(kMine);
  char* mine = take(20 * kMiB);
  pool.free(mine);
  end(kMine);
  EXPECT_EQ(take(20 * kMiB), nullptr);
  pool.usePoolAsLastResort(kMine);
  EXPECT_EQ(take(20 * kMiB, other), nullptr); // a stream of its own, as ever
  EXPECT_EQ(take(20 * kMiB), mine);
  EXPECT_EQ(pool.stats().outOfMemory, 2);
}

TEST_F(BlockPoolPrivateTest, SegmentsOfAPoolCanComeFromElsewhere) {
  PoolConfig growing;
  growing.expandableSegments = true;
  pool.setConfig(growing);
  std::vector<size_t> given;
  pool.retainPool(kMine);
  pool.setSource(kMine, [&](size_t bytes, void* of) {
    given.push_back(bytes);
    return given.size() < 3 ? device.mapSegment(bytes, of) : nullptr;
  });
  begin(kMine);
  char* mine = take(512);
  EXPECT_EQ(take(512), mine + 512);
  EXPECT_NE(take(12 * kMiB), nullptr);
  EXPECT_EQ(take(12 * kMiB), nullptr);
  end(kMine);
  EXPECT_NE(take(12 * kMiB), nullptr);
  EXPECT_EQ(given, (std::vector<size_t>{2 * kMiB, 12 * kMiB, 12 * kMiB}));
  EXPECT_EQ(device.segments.size(), 2u); // the common pool's grow
  pool.free(mine);
  pool.free(mine + 512);
  EXPECT_TRUE(pool.releasePool(kMine)); // what begin() retained
  EXPECT_TRUE(pool.releasePool(kMine));
  pool.emptyCache(kMine);
  EXPECT_EQ(device.segments.count(mine), 0u);
}

TEST_F(BlockPoolPrivateTest, BlocksOfAPoolCanBeKeptWhole) {
  pool.retainPool(kMine);
  pool.doNotSplitInPool(kMine);
  begin(kMine);
  char* mine = take(512);
  EXPECT_NE(take(512), mine + 512);
  EXPECT_EQ(
      pool.stats().allocatedBytes[PoolStats::All].current, int64_t(4 * kMiB));
}

// --- events -------------------------------------------------------------------

TEST_F(BlockPoolPrivateTest, WhileAllocatingToAPoolNoEventIsRecorded) {
  char* pointer = take(512);
  pool.recordStream(pointer, &other);
  beginFor(kMine, third);
  pool.free(pointer);
  other.runAll();
  EXPECT_NE(take(512), pointer);
  EXPECT_EQ(device.events(), 0u);
  EXPECT_EQ(pool.stats().active[PoolStats::All].current, 2);
  end(kMine);
  take(512); // now the event is recorded, behind the work queued meanwhile
  EXPECT_EQ(device.events(), 1u);
  other.runAll();
  EXPECT_EQ(take(512), pointer);
}

TEST_F(BlockPoolPrivateTest, EventsFromBeforeAreNotAskedForMeanwhile) {
  char* pointer = take(512);
  pool.recordStream(pointer, &other);
  pool.free(pointer);
  other.runAll();
  beginFor(kMine, third);
  EXPECT_NE(take(512), pointer);
  end(kMine);
  EXPECT_EQ(take(512), pointer);
}

TEST_F(BlockPoolPrivateTest, EmptyingOnePoolWaitsForItsOwnBlocksOnly) {
  char* common = take(512);
  begin(kMine);
  char* mine = take(512);
  end(kMine);
  for (char* pointer : {common, mine}) {
    pool.recordStream(pointer, &other);
    pool.free(pointer);
  }
  pool.releasePool(kMine);
  pool.emptyCache(kMine);
  EXPECT_EQ(device.events(), 1u);
  EXPECT_EQ(device.segments.count(mine), 0u);
  EXPECT_EQ(device.segments.count(common), 1u);
}

// --- figures ------------------------------------------------------------------

TEST_F(BlockPoolPrivateTest, ReservedBytesAreToldForEachPool) {
  begin(kMine);
  pool.free(take(512));
  pool.free(take(5 * kMiB));
  end(kMine);
  take(512);
  auto reserved = pool.reservedByPool();
  ASSERT_EQ(reserved.size(), 1u);
  EXPECT_EQ(reserved[kMine][PoolStats::All].current, int64_t(22 * kMiB));
  EXPECT_EQ(reserved[kMine][PoolStats::Small].current, int64_t(2 * kMiB));

  pool.releasePool(kMine);
  pool.emptyCache();
  reserved = pool.reservedByPool();
  EXPECT_EQ(reserved[kMine][PoolStats::All].current, 0);
  EXPECT_EQ(reserved[kMine][PoolStats::All].peak, int64_t(22 * kMiB));
  EXPECT_EQ(reserved[kMine][PoolStats::All].freed, int64_t(22 * kMiB));
  pool.resetPeakStats();
  pool.resetAccumulatedStats();
  EXPECT_TRUE(pool.reservedByPool().empty());
}

} // namespace
} // namespace openreg::testing
