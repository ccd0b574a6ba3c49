// Checkpoints of private pools. Free of torch, so that it also runs under the
// sanitizers.
#include "fake_device.h"

namespace openreg::testing {
namespace {

constexpr PoolId kMine{0, 7}, kYours{0, 8};

class BlockPoolCheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(pool.beginAllocateToPool(kMine, [](void*) { return true; }));
  }
  void TearDown() override {
    pool.endAllocateToPool(kMine);
    pool.releasePool(kMine);
  }
  char* take(size_t bytes) {
    return static_cast<char*>(pool.allocate(bytes, &stream));
  }
  // The blocks of the pool, as {size, whether it is allocated}.
  std::vector<std::pair<size_t, bool>> blocks() {
    std::vector<std::pair<size_t, bool>> found;
    for (const auto& segment : pool.snapshot(kMine)) {
      for (const auto& block : segment.blocks) {
        found.emplace_back(
            block.size, block.state == PoolBlockInfo::ActiveAllocated);
      }
    }
    return found;
  }

  FakeStream stream, other;
  FakeDevice device;
  TestPool pool{device};
};

TEST_F(BlockPoolCheckpointTest, WhatWasAllocatedIsAllocatedAgain) {
  char* first = take(512);
  char* second = take(1024);
  char* third = take(5 * kMiB);
  pool.free(second);
  const auto then = pool.checkpoint(kMine);
  const auto blocksThen = blocks();
  const auto statsThen = pool.stats();

  pool.free(first);
  pool.free(third);
  char* fourth = take(2048);
  const auto changed = pool.restore(then);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->freed, std::vector<void*>{fourth});
  EXPECT_EQ(changed->allocated, (std::vector<void*>{first, third}));
  EXPECT_EQ(blocks(), blocksThen);
  for (const auto figure :
       {&PoolStats::allocatedBytes,
        &PoolStats::activeBytes,
        &PoolStats::requestedBytes,
        &PoolStats::inactiveSplitBytes,
        &PoolStats::inactiveSplit,
        &PoolStats::allocation}) {
    for (size_t kind = 0; kind < 3; ++kind) {
      EXPECT_EQ(
          (pool.stats().*figure)[kind].current,
          (statsThen.*figure)[kind].current);
    }
  }
  EXPECT_TRUE(pool.free(first)); // as ever
  EXPECT_FALSE(pool.free(fourth));
}

TEST_F(BlockPoolCheckpointTest, WhatComesNextGetsTheMemoryItWouldHave) {
  char* first = take(512);
  const auto then = pool.checkpoint(kMine);
  char* second = take(512);
  char* third = take(3 * kMiB);
  ASSERT_TRUE(pool.restore(then));
  EXPECT_EQ(take(512), second);
  EXPECT_EQ(take(3 * kMiB), third);
  EXPECT_TRUE(pool.free(first));
}

TEST_F(BlockPoolCheckpointTest, SegmentsThatCameLaterBecomeFree) {
  const auto empty = pool.checkpoint(kMine);
  char* later = take(20 * kMiB);
  const auto changed = pool.restore(empty);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->freed, std::vector<void*>{later});
  EXPECT_EQ(take(20 * kMiB), later);
  EXPECT_EQ(device.segments.size(), 1u);
}

TEST_F(BlockPoolCheckpointTest, OtherPoolsAreLeftAlone) {
  pool.endAllocateToPool(kMine);
  char* common = take(512);
  ASSERT_TRUE(pool.beginAllocateToPool(kYours, [](void*) { return true; }));
  char* yours = take(512);
  const auto mine = pool.checkpoint(kMine);
  ASSERT_TRUE(pool.restore(mine));
  EXPECT_TRUE(pool.free(common));
  EXPECT_TRUE(pool.free(yours));
  pool.endAllocateToPool(kYours);
  pool.releasePool(kYours);
}

TEST_F(BlockPoolCheckpointTest, WithoutItsSegmentsAStateIsLost) {
  pool.free(take(512));
  const auto then = pool.checkpoint(kMine);
  pool.endAllocateToPool(kMine);
  pool.releasePool(kMine);
  pool.emptyCache();
  EXPECT_FALSE(pool.restore(then));
  EXPECT_TRUE(device.segments.empty());
}

TEST_F(BlockPoolCheckpointTest, ABlockThatOtherStreamsHoldBackStopsIt) {
  char* first = take(512);
  const auto then = pool.checkpoint(kMine);
  pool.recordStream(first, &other);
  pool.free(first);
  EXPECT_FALSE(pool.restore(then));
  EXPECT_EQ(pool.stats().active[PoolStats::All].current, 1);
}

} // namespace
} // namespace openreg::testing
