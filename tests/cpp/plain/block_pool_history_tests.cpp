// Snapshots, history and observers of the block pool. Free of torch, so that it
// also runs under the sanitizers.
#include "fake_device.h"

#include <string>

namespace openreg::testing {
namespace {

using Entry = PoolTraceEntry;

class BlockPoolHistoryTest : public ::testing::Test {
 protected:
  char* take(size_t bytes, const PoolContext& context = {}) {
    return static_cast<char*>(pool.allocate(bytes, &stream, context));
  }
  static PoolContext context(const char* text) {
    return std::make_shared<std::string>(text);
  }
  static std::string text(const PoolContext& context) {
    return context ? *static_cast<std::string*>(context.get()) : "none";
  }
  // "action size context" of each entry.
  std::vector<std::string> told() {
    static const char* const names[] = {
        "alloc",
        "free_requested",
        "free_completed",
        "segment_alloc",
        "segment_free",
        "segment_map",
        "segment_unmap",
        "snapshot",
        "oom"};
    std::vector<std::string> lines;
    for (const Entry& entry : pool.history()) {
      lines.push_back(
          std::string(names[entry.action]) + " " + std::to_string(entry.size) +
          " " + text(entry.context));
    }
    return lines;
  }
  using Lines = std::vector<std::string>;

  FakeStream stream, other;
  FakeDevice device{100 * kMiB};
  BlockPool pool{device};
};

// --- snapshots ----------------------------------------------------------------

TEST_F(BlockPoolHistoryTest, ASnapshotHasAllBlocksOfAllSegmentsByAddress) {
  char* first = take(1000);
  char* parked = take(512);
  char* large = take(5 * kMiB);
  pool.recordStream(parked, &other);
  pool.free(parked);

  const auto segments = pool.snapshot();
  ASSERT_EQ(segments.size(), 2u);
  const PoolSegmentInfo& small = segments[0];
  EXPECT_EQ(small.address, reinterpret_cast<uintptr_t>(first));
  EXPECT_EQ(small.size, 2 * kMiB);
  EXPECT_EQ(small.requested, 1512u);
  EXPECT_EQ(small.allocated, 1024u);
  EXPECT_EQ(small.active, 1536u);
  EXPECT_EQ(small.stream, &stream);
  EXPECT_FALSE(small.isLarge);
  EXPECT_EQ(small.pool, PoolId{});
  EXPECT_TRUE(segments[1].isLarge);
  EXPECT_EQ(segments[1].address, reinterpret_cast<uintptr_t>(large));

  ASSERT_EQ(small.blocks.size(), 3u);
  EXPECT_EQ(small.blocks[0].state, PoolBlockInfo::ActiveAllocated);
  EXPECT_EQ(small.blocks[0].size, 1024u);
  EXPECT_EQ(small.blocks[0].requested, 1000u);
  EXPECT_EQ(small.blocks[1].state, PoolBlockInfo::ActivePendingFree);
  EXPECT_EQ(small.blocks[1].address, reinterpret_cast<uintptr_t>(parked));
  EXPECT_EQ(small.blocks[2].state, PoolBlockInfo::Inactive);
  EXPECT_EQ(small.blocks[2].size, 2 * kMiB - 1536);
  EXPECT_EQ(small.blocks[2].requested, 0u);
  pool.emptyCache();
}

TEST_F(BlockPoolHistoryTest, ASnapshotCanBeOfOnePool) {
  const PoolId mine{0, 1};
  take(512);
  pool.beginAllocateToPool(mine, [](void*) { return true; });
  take(512);
  EXPECT_EQ(pool.snapshot().size(), 2u);
  const auto segments = pool.snapshot(mine);
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].pool, mine);
  EXPECT_TRUE(pool.snapshot({0, 2}).empty());
}

TEST_F(BlockPoolHistoryTest, BlocksKeepTheContextOfTheirAllocation) {
  char* pointer = take(512, context("here"));
  auto segment = pool.snapshot().at(0);
  EXPECT_EQ(text(segment.context), "here");
  EXPECT_EQ(text(segment.blocks.at(0).context), "here");
  EXPECT_EQ(text(segment.blocks.at(1).context), "none");
  pool.free(pointer);
  take(512, context("there"));
  segment = pool.snapshot().at(0);
  EXPECT_EQ(text(segment.context), "here"); // the segment is still the same
  EXPECT_EQ(text(segment.blocks.at(0).context), "there");
}

TEST_F(BlockPoolHistoryTest, ContextsAreDroppedWithTheirBlocks) {
  const PoolContext kept = context("here");
  char* pointer = take(512, kept);
  EXPECT_EQ(kept.use_count(), 3); // block and segment
  pool.free(pointer);
  EXPECT_EQ(kept.use_count(), 2);
  pool.emptyCache();
  EXPECT_EQ(kept.use_count(), 1);
}

// --- history ------------------------------------------------------------------

TEST_F(BlockPoolHistoryTest, NothingIsRecordedUnlessAskedFor) {
  pool.free(take(512));
  EXPECT_FALSE(pool.shouldGather(PoolRecord::State));
  EXPECT_TRUE(pool.history().empty());
}

TEST_F(BlockPoolHistoryTest, EverythingThatHappensIsRecordedInOrder) {
  pool.recordHistory(true);
  char* first = take(1000, context("a"));
  char* second = take(5 * kMiB, context("b"));
  pool.free(first, context("c"));
  pool.recordStream(second, &other);
  pool.free(second);
  pool.emptyCache({}, context("d"));
  EXPECT_EQ(take(200 * kMiB, context("e")), nullptr);
  pool.snapshot();
  const Lines expected{
      "segment_alloc 2097152 a",
      "alloc 1000 a",
      "segment_alloc 20971520 b",
      "alloc 5242880 b",
      "free_requested 1000 c",
      "free_completed 1000 c",
      "free_requested 5242880 b", // by the context it was allocated with
      "free_completed 5242880 b", // when the cache was emptied
      "segment_free 20971520 d",
      "segment_free 2097152 d",
      "oom 209715200 e",
      "snapshot 0 none"};
  EXPECT_EQ(told(), expected);

  const auto entries = pool.history();
  EXPECT_EQ(entries[1].address, reinterpret_cast<uintptr_t>(first));
  EXPECT_EQ(entries[1].stream, &stream);
  EXPECT_EQ(entries[10].address, 100 * kMiB); // what the device had free
  for (const Entry& entry : entries) {
    EXPECT_GT(entry.time, int64_t{1'600'000'000} * 1'000'000'000); // 2020
  }
}

TEST_F(BlockPoolHistoryTest, AParkedBlockIsFreedWhenItsEventsHaveHappened) {
  char* pointer = take(512);
  pool.recordHistory(true);
  pool.recordStream(pointer, &other);
  pool.free(pointer);
  EXPECT_EQ(told(), (Lines{"free_requested 512 none"}));
  other.runAll();
  take(1);
  EXPECT_EQ(
      told(),
      (Lines{
          "free_requested 512 none",
          "free_completed 512 none",
          "alloc 1 none"}));
}

TEST_F(BlockPoolHistoryTest, EntriesTellTheirPool) {
  const PoolId mine{3, 0};
  pool.recordHistory(true);
  pool.beginAllocateToPool(mine, [](void*) { return true; });
  take(512);
  for (const Entry& entry : pool.history()) {
    EXPECT_EQ(entry.pool, mine);
  }
}

TEST_F(BlockPoolHistoryTest, TheLastEntriesAreKept) {
  char* pointer = take(512);
  pool.recordHistory(true, PoolRecord::All, 3);
  for (const size_t bytes : {1, 2, 3, 4, 5}) {
    pool.free(pointer);
    pointer = take(bytes);
  }
  const Lines last{
      "free_requested 4 none", "free_completed 4 none", "alloc 5 none"};
  EXPECT_EQ(told(), last);

  pool.recordHistory(true, PoolRecord::All, 2); // fewer: the last of them
  EXPECT_EQ(told(), Lines(last.begin() + 1, last.end()));
  pool.recordHistory(true, PoolRecord::All, 4); // more: all there are
  pool.free(pointer);
  EXPECT_EQ(
      told(),
      (Lines{
          "free_completed 4 none",
          "alloc 5 none",
          "free_requested 5 none",
          "free_completed 5 none"}));
}

TEST_F(BlockPoolHistoryTest, TheModeTellsForWhichCallsAContextIsWanted) {
  const auto wanted = [&] {
    std::string modes;
    for (const auto mode :
         {PoolRecord::State, PoolRecord::Alloc, PoolRecord::All}) {
      modes += pool.shouldGather(mode) ? 'y' : 'n';
    }
    return modes;
  };
  pool.recordHistory(true, PoolRecord::State);
  EXPECT_EQ(wanted(), "ynn");
  pool.recordHistory(true, PoolRecord::Alloc);
  EXPECT_EQ(wanted(), "yyn");
  pool.recordHistory(true, PoolRecord::All);
  EXPECT_EQ(wanted(), "yyy");
  pool.recordHistory(true, PoolRecord::Never);
  EXPECT_EQ(wanted(), "nnn");
  pool.recordHistory(false);
  EXPECT_EQ(wanted(), "nnn");
}

TEST_F(BlockPoolHistoryTest, WithTheStateModeContextsAreInSnapshotsOnly) {
  pool.recordHistory(true, PoolRecord::State);
  take(512, context("here"));
  EXPECT_EQ(told().back(), "alloc 512 none");
  EXPECT_EQ(text(pool.snapshot().at(0).blocks.at(0).context), "here");
}

TEST_F(BlockPoolHistoryTest, TurningItOffOrAskingForItClearsIt) {
  pool.recordHistory(true);
  take(512);
  pool.recordHistory(true, PoolRecord::All, 10, /*clear=*/true);
  EXPECT_TRUE(pool.history().empty());
  take(512);
  EXPECT_EQ(told(), Lines{"alloc 512 none"});
  pool.recordHistory(false);
  EXPECT_TRUE(pool.history().empty());
  take(512);
  EXPECT_TRUE(pool.history().empty());
}

// --- observers ----------------------------------------------------------------

TEST_F(BlockPoolHistoryTest, ObserversHearOfFailuresAndMayUseThePool) {
  std::vector<PoolOutOfMemory> heard;
  pool.observeOutOfMemory([&](const PoolOutOfMemory& what) {
    heard.push_back(what);
    pool.stats(); // would wait for ever with the lock held
    pool.free(take(512));
  });
  take(20 * kMiB);
  EXPECT_EQ(take(200 * kMiB + 1), nullptr);
  pool.setLimit(30 * kMiB);
  EXPECT_EQ(take(50 * kMiB), nullptr);
  EXPECT_EQ(pool.tryAllocate(50 * kMiB, &stream), nullptr); // is no failure
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].segment, 202 * kMiB);
  EXPECT_EQ(heard[0].allowed, 100 * kMiB);
  EXPECT_EQ(heard[0].free, 80 * kMiB);
  EXPECT_EQ(heard[1].allowed, 30 * kMiB);
}

} // namespace
} // namespace openreg::testing
