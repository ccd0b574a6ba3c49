// Segments that grow, driven by a device of the test's own.
#include "fake_device.h"

namespace openreg::testing {
namespace {

/// A pool whose segments grow.
class GrowingTest : public BlockPoolTest {
 protected:
  GrowingTest() {
    PoolConfig config;
    config.expandableSegments = true;
    pool.setConfig(config);
  }
  int64_t segments() {
    return pool.stats().segment[PoolStats::All].current;
  }
};

TEST_F(GrowingTest, MemoryIsMappedInUnits) {
  take(1);
  EXPECT_EQ(reservedBytes(), 2 * kMiB);
  char* const large = take(12 * kMiB);
  EXPECT_EQ(reservedBytes(), 22 * kMiB);
  EXPECT_EQ(take(30 * kMiB), large + 12 * kMiB);
  EXPECT_EQ(reservedBytes(), 62 * kMiB);
  EXPECT_EQ(segments(), 0); // CUDA counts none
  EXPECT_TRUE(device.mapped.empty());
  EXPECT_EQ(pool.stats().maps, 3);
}

TEST_F(GrowingTest, AnAllocationThatGrowsStaysInPlace) {
  char* const first = take(20 * kMiB);
  pool.free(first);
  for (size_t size = 40; size <= 400; size += 20) {
    char* const pointer = take(size * kMiB);
    EXPECT_EQ(pointer, first);
    EXPECT_EQ(reservedBytes(), static_cast<int64_t>(size * kMiB));
    pool.free(pointer);
  }
}

TEST_F(GrowingTest, BlocksAreCutFinelyAndDoNotCountAsSplit) {
  char* const first = take(19 * kMiB + 512);
  pool.free(first);
  EXPECT_EQ(take(19 * kMiB), first);
  const auto stats = pool.stats();
  EXPECT_EQ(stats.allocatedBytes[PoolStats::All].current, 19 * kMiB);
  EXPECT_EQ(stats.inactiveSplit[PoolStats::All].current, 0);
  EXPECT_EQ(stats.inactiveSplitBytes[PoolStats::All].current, 0);
}

TEST_F(GrowingTest, ABlockThatCannotGrowIsPreferred) {
  char* const hole = take(40 * kMiB);
  take(20 * kMiB);
  char* const end = take(20 * kMiB);
  pool.free(hole);
  pool.free(end);
  EXPECT_EQ(take(20 * kMiB), hole); // although the other fits better
}

TEST_F(GrowingTest, WholeUnitsOfFreeBlocksGoBack) {
  char* const a = take(30 * kMiB);
  char* const b = take(30 * kMiB);
  char* const c = take(40 * kMiB);
  EXPECT_EQ(reservedBytes(), 100 * kMiB);
  pool.free(a);
  pool.free(c);
  pool.emptyCache();
  EXPECT_EQ(reservedBytes(), 40 * kMiB); // b lies in two units
  EXPECT_EQ(pool.stats().unmaps, 2);
  // The rest of a's second unit is free, and what is behind it can be mapped again.
  EXPECT_EQ(take(10 * kMiB), a + 20 * kMiB);
  EXPECT_EQ(reservedBytes(), 40 * kMiB);
  EXPECT_EQ(take(20 * kMiB), a);
  EXPECT_EQ(reservedBytes(), 60 * kMiB);
  pool.free(b);
}

TEST_F(GrowingTest, AnEmptySegmentGivesItsAddressesBack) {
  pool.free(take(30 * kMiB));
  pool.free(take(1));
  EXPECT_EQ(device.ranges.size(), 2u);
  pool.emptyCache();
  EXPECT_TRUE(device.ranges.empty());
  EXPECT_TRUE(device.pieces.empty());
  EXPECT_EQ(reservedBytes(), 0);
}

TEST_F(GrowingTest, TheLockIsFreeWhileMemoryGoesBack) {
  pool.free(take(30 * kMiB));
  char* meanwhile = nullptr;
  device.onWait = [&] {
    device.onWait = nullptr;
    meanwhile = take(30 * kMiB); // not the block that is leaving
  };
  pool.emptyCache();
  ASSERT_NE(meanwhile, nullptr);
  EXPECT_EQ(reservedBytes(), 40 * kMiB);
  pool.free(meanwhile);
}

TEST_F(GrowingTest, StreamsAndPrivatePoolsHaveSegmentsOfTheirOwn) {
  const PoolId id{1, 0};
  take(20 * kMiB);
  take(20 * kMiB, other);
  pool.retainPool(id);
  pool.beginAllocateToPool(id, [](auto) { return true; });
  char* const own = take(20 * kMiB);
  pool.endAllocateToPool(id);
  EXPECT_EQ(device.ranges.size(), 3u);
  const auto segments = pool.snapshot(id);
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_TRUE(segments[0].grows);
  EXPECT_EQ(segments[0].address, reinterpret_cast<uintptr_t>(own));
  pool.free(own);
  pool.emptyCache();
  EXPECT_EQ(device.ranges.size(), 3u); // the pool has users
  pool.releasePool(id); // of the route
  pool.releasePool(id);
  pool.emptyCache();
  EXPECT_EQ(device.ranges.size(), 2u);
}

TEST_F(GrowingTest, ACheckpointOfAPoolThatHasGrownIsRestored) {
  const PoolId id{1, 0};
  pool.retainPool(id);
  pool.beginAllocateToPool(id, [](auto) { return true; });
  char* const kept = take(10 * kMiB);
  const auto checkpoint = pool.checkpoint(id);
  take(50 * kMiB);
  pool.endAllocateToPool(id);
  const auto restored = pool.restore(checkpoint);
  ASSERT_TRUE(restored.has_value());
  EXPECT_EQ(restored->allocated, std::vector<void*>{kept});
  EXPECT_EQ(allocatedBytes(), 10 * kMiB);
}

TEST_F(GrowingTest, ASnapshotHasThePartsWithMemory) {
  char* const a = take(20 * kMiB);
  char* const b = take(20 * kMiB);
  char* const c = take(20 * kMiB);
  pool.free(b);
  pool.emptyCache();
  const auto segments = pool.snapshot();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].address, reinterpret_cast<uintptr_t>(a));
  EXPECT_EQ(segments[1].address, reinterpret_cast<uintptr_t>(c));
  EXPECT_EQ(segments[0].size, 20 * kMiB);
}

TEST_F(GrowingTest, TheHistoryHasWhatIsMapped) {
  pool.recordHistory(true);
  pool.free(take(30 * kMiB));
  pool.emptyCache();
  std::vector<std::pair<PoolTraceEntry::Action, size_t>> found;
  for (const auto& entry : pool.history()) {
    if (entry.action == PoolTraceEntry::SegmentMap ||
        entry.action == PoolTraceEntry::SegmentUnmap) {
      found.emplace_back(entry.action, entry.size);
    }
  }
  const decltype(found) expected{
      {PoolTraceEntry::SegmentMap, 40 * kMiB},
      {PoolTraceEntry::SegmentUnmap, 40 * kMiB}};
  EXPECT_EQ(found, expected);
}

TEST(GrowingLimitTest, WithoutEnoughMemoryTheCacheGoesBackAndThenItFails) {
  FakeStream stream, other;
  FakeDevice device(100 * kMiB);
  TestPool pool(device);
  PoolConfig config;
  config.expandableSegments = true;
  pool.setConfig(config);
  pool.free(pool.allocate(60 * kMiB, &stream));
  pool.allocate(1, &stream);
  EXPECT_NE(pool.allocate(80 * kMiB, &stream), nullptr);
  EXPECT_EQ(pool.allocate(40 * kMiB, &stream), nullptr);
  EXPECT_EQ(pool.stats().outOfMemory, 1);
  EXPECT_EQ(pool.stats().retries, 1);
  EXPECT_EQ(pool.allocate(30 * kMiB, &other), nullptr);
  EXPECT_EQ(device.ranges.size(), 2u); // none is left for the other stream
}

TEST_F(GrowingTest, WithoutTheSettingOrAddressesThereArePlainSegments) {
  pool.free(take(30 * kMiB));
  pool.setConfig({});
  take(30 * kMiB);
  EXPECT_EQ(segments(), 1);
  PoolConfig config;
  config.expandableSegments = true;
  pool.setConfig(config);
  device.hasRanges = false;
  take(30 * kMiB, other);
  EXPECT_EQ(segments(), 2);
}

} // namespace
} // namespace openreg::testing
