// The parts of the block pool that deal with memory: sizes, segments, the reserve
// and what is given back.
#include "fake_device.h"

#include "runtime/pool/Garbage.h"
#include "runtime/pool/Reserve.h"

#include <algorithm>

namespace openreg::testing {
namespace {

using namespace c10::openreg;

// --- BlockSizes ----------------------------------------------------------------

TEST(BlockSizesTest, BlocksAreRoundedAndSegmentsFollowThem) {
  const BlockSizes sizes;
  EXPECT_EQ(sizes.blockSize(1), 512u);
  EXPECT_EQ(sizes.blockSize(513), 1024u);
  EXPECT_EQ(sizes.segmentSize(kMiB), 2 * kMiB);
  EXPECT_EQ(sizes.segmentSize(kMiB + 512), 20 * kMiB);
  EXPECT_EQ(sizes.segmentSize(11 * kMiB), 12 * kMiB);
  EXPECT_EQ(sizes.blockSize(SIZE_MAX), BlockSizes::kTooLarge);
  EXPECT_EQ(sizes.segmentSize(BlockSizes::kTooLarge), BlockSizes::kTooLarge);
}

TEST(BlockSizesTest, ARestIsWorthABlockIfItCanServeTheSameKind) {
  BlockSizes sizes;
  EXPECT_TRUE(sizes.worthSplitting(512, 512, /*fromSmall=*/true));
  EXPECT_FALSE(sizes.worthSplitting(512, 0, /*fromSmall=*/true));
  EXPECT_FALSE(sizes.worthSplitting(2 * kMiB, kMiB, /*fromSmall=*/false));
  EXPECT_TRUE(sizes.worthSplitting(2 * kMiB, kMiB + 512, /*fromSmall=*/false));
  PoolConfig config;
  config.maxSplitSize = 30 * kMiB;
  sizes.set(config);
  EXPECT_FALSE(sizes.worthSplitting(30 * kMiB, 30 * kMiB, /*fromSmall=*/false));
}

TEST(BlockSizesTest, OversizeBlocksServeOversizeRequestsOnly) {
  BlockSizes sizes;
  PoolConfig config;
  config.maxSplitSize = 30 * kMiB;
  config.maxNonSplitRounding = 5 * kMiB;
  sizes.set(config);
  EXPECT_LT(sizes.largestFor(10 * kMiB), 30 * kMiB);
  EXPECT_EQ(sizes.largestFor(30 * kMiB), 35 * kMiB - 1);
}

// --- Segments ------------------------------------------------------------------

class SegmentsTest : public ::testing::Test {
 protected:
  FreeBlocks& home(PoolCounter::Kind kind = PoolCounter::Small) {
    return arenas.freeBlocks(kind, &stream);
  }
  PoolBlock* add(size_t bytes) {
    PoolBlock* block = segments.add(next, bytes, home(), nullptr);
    next += 2 * bytes;
    return block;
  }
  /// Sizes of the blocks of all segments, negative for those that are free.
  std::vector<int64_t> sizes() {
    std::vector<int64_t> found;
    for (const auto& segment : segments.describe(PoolId{})) {
      for (const auto& block : segment.blocks) {
        const auto size = static_cast<int64_t>(block.size);
        found.push_back(block.state == PoolBlockInfo::Inactive ? -size : size);
      }
    }
    return found;
  }

  using Sizes = std::vector<int64_t>;
  FakeStream stream;
  Arenas arenas;
  PoolCounters counters;
  Segments segments{counters};
  char* next = reinterpret_cast<char*>(kMiB);
};

TEST_F(SegmentsTest, ABlockIsCutAndTheRestIsFree) {
  PoolBlock* block = add(4096);
  segments.cut(block, 1024, /*splits=*/true);
  EXPECT_EQ(sizes(), (Sizes{1024, -3072}));
  EXPECT_EQ(segments.findAllocated(block->pointer), block);
  EXPECT_EQ(segments.findAllocated(block->pointer + 1024), nullptr);
  EXPECT_EQ(counters.inactiveSplit.current(), 1);
  EXPECT_EQ(counters.inactiveSplitBytes.current(), 3072);

  PoolBlock* rest = home().take(512, SIZE_MAX);
  EXPECT_EQ(rest, block->after);
  segments.cut(rest, 512, /*splits=*/false);
  EXPECT_EQ(sizes(), (Sizes{1024, 3072}));
  EXPECT_EQ(counters.inactiveSplit.current(), 0);
  EXPECT_EQ(counters.inactiveSplitBytes.current(), 0);
}

TEST_F(SegmentsTest, FreeNeighboursBecomeOne) {
  PoolBlock* first = add(3072);
  segments.cut(first, 1024, true);
  PoolBlock* second = home().take(1024, SIZE_MAX);
  segments.cut(second, 1024, true);
  PoolBlock* third = home().take(1024, SIZE_MAX);
  segments.cut(third, 1024, false);
  EXPECT_EQ(sizes(), (Sizes{1024, 1024, 1024}));

  segments.merge(first);
  segments.merge(third);
  EXPECT_EQ(sizes(), (Sizes{-1024, 1024, -1024}));
  EXPECT_EQ(counters.inactiveSplit.current(), 2);
  segments.merge(second);
  EXPECT_EQ(sizes(), (Sizes{-3072}));
  EXPECT_TRUE(first->isWholeSegment());
  EXPECT_EQ(counters.inactiveSplit.current(), 0);
  EXPECT_EQ(counters.inactiveSplitBytes.current(), 0);
  EXPECT_EQ(home().take(3072, SIZE_MAX), first);
}

TEST_F(SegmentsTest, UnusedSegmentsAreSortedAndUsedOnesLeftOut) {
  PoolBlock* large = add(8192);
  PoolBlock* used = add(4096);
  PoolBlock* small = add(2048);
  segments.cut(used, 512, true);
  const auto all = [](const FreeBlocks&) { return true; };
  EXPECT_EQ(segments.unused(all), (std::vector<PoolBlock*>{small, large}));
  EXPECT_TRUE(segments.unused([](const FreeBlocks&) { return false; }).empty());
}

TEST_F(SegmentsTest, ARemovedSegmentGivesItsContextBackAndItsBlockIsUsedAgain) {
  const PoolContext context = std::make_shared<int>(1);
  PoolBlock* block = segments.add(next, 4096, home(), context);
  EXPECT_EQ(segments.remove(block), context);
  EXPECT_TRUE(sizes().empty());
  EXPECT_EQ(add(2048), block);
}

// --- Reserve -------------------------------------------------------------------

class ReserveTest : public SegmentsTest {
 protected:
  FakeDevice device{100 * kMiB};
  BlockSizes blockSizes;
  PoolHistory history;
  Reserve reserve{device, blockSizes, segments, counters, history};
};

TEST_F(ReserveTest, SegmentsComeFromTheDeviceUpToTheLimit) {
  reserve.setLimit(4 * kMiB);
  PoolBlock* first = reserve.map(home(), 512, nullptr);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->size, 2 * kMiB);
  EXPECT_NE(reserve.map(home(), 512, nullptr), nullptr);
  EXPECT_EQ(reserve.map(home(), 512, nullptr), nullptr);
  EXPECT_EQ(reserve.bytes(), 4 * kMiB);
  EXPECT_EQ(device.mapped.size(), 2u); // the third was not asked for
  EXPECT_EQ(home().segments, 2u);
}

TEST_F(ReserveTest, WhatTheDeviceHasNotIsNotCounted) {
  EXPECT_EQ(reserve.map(home(), 200 * kMiB, nullptr), nullptr);
  EXPECT_EQ(reserve.map(home(), BlockSizes::kTooLarge, nullptr), nullptr);
  EXPECT_EQ(reserve.bytes(), 0u);
  EXPECT_EQ(counters.read().maps, 0);
}

TEST_F(ReserveTest, ForgottenSegmentsAreOutOfTheBooksBeforeTheyAreUnmapped) {
  PoolBlock* segment = reserve.map(home(), 512, nullptr);
  segments.merge(segment); // free, as if a block of it had been freed
  void* pointer = reserve.forget(segment, nullptr);
  EXPECT_EQ(reserve.bytes(), 0u);
  EXPECT_TRUE(sizes().empty());
  EXPECT_EQ(device.segments.size(), 1u);
  reserve.unmap({pointer});
  EXPECT_TRUE(device.segments.empty());
  EXPECT_EQ(counters.read().unmaps, 1);
}

TEST_F(ReserveTest, PrivatePoolsHaveFiguresOfTheirOwn) {
  const PoolId id{1, 2};
  FreeBlocks& own = arenas.at(id).cacheOf(&stream).small;
  reserve.map(own, 512, nullptr);
  reserve.map(home(), 512, nullptr);
  const auto figures = reserve.byPool().read();
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(
      figures.at(id)[PoolStats::All].current, static_cast<int64_t>(2 * kMiB));
}

// --- what is given back -----------------------------------------------------------

class GarbageTest : public ::testing::Test {
 protected:
  PoolBlock* block(size_t size, uint64_t freedAt = 0) {
    PoolBlock& made = blocks_.emplace_back();
    made.size = size;
    made.freedAt = freedAt;
    return &made;
  }
  using Blocks = std::vector<PoolBlock*>;

 private:
  std::deque<PoolBlock> blocks_;
};

TEST_F(GarbageTest, OneOversizeSegmentThatFitsIsEnough) {
  PoolBlock *small = block(10), *fits = block(30), *larger = block(40);
  EXPECT_EQ(chooseOversize({small, fits, larger}, 25, 20), Blocks{fits});
}

TEST_F(GarbageTest, SeveralOversizeSegmentsAreTakenFromTheLargestDown) {
  PoolBlock *small = block(10), *a = block(20), *b = block(30);
  EXPECT_EQ(chooseOversize({small, a, b}, 45, 20), (Blocks{b, a}));
  EXPECT_EQ(chooseOversize({small, a, b}, 100, 20), (Blocks{b, a}));
  EXPECT_EQ(bytesOf({b, a}), 50u);
  EXPECT_TRUE(chooseOversize({small}, 45, 20).empty());
}

TEST_F(GarbageTest, SegmentsOfAverageAgeAndMoreGoFirst) {
  PoolBlock *old = block(10, 1), *young = block(10, 9), *older = block(10, 0);
  EXPECT_EQ(chooseOld({old, young, older}, 15, 10), (Blocks{old, older}));
  EXPECT_EQ(
      chooseOld({old, young, older}, 30, 10), (Blocks{old, older, young}));
  EXPECT_TRUE(chooseOld({old}, 0, 10).empty());
}

} // namespace
} // namespace openreg::testing
