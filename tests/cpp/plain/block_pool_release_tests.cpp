// The block pool: memory that goes back to the device.
#include "fake_device.h"

#include <chrono>
#include <future>
#include <thread>

namespace openreg::testing {
namespace {

using BlockPoolReleaseTest = BlockPoolTest;

TEST_F(BlockPoolReleaseTest, EmptyCacheKeepsSegmentsWithAllocatedBlocks) {
  char* kept = take(512);
  pool.free(take(4 * kMiB));
  pool.emptyCache();
  EXPECT_EQ(reservedBytes(), int64_t(2 * kMiB));
  EXPECT_EQ(device.segments.count(kept), 1u);
  EXPECT_EQ(pool.stats().unmaps, 1);
}

TEST_F(BlockPoolReleaseTest, EmptyCacheWaitsForParkedBlocks) {
  char* pointer = take(512);
  pool.recordStream(pointer, &other);
  pool.free(pointer);
  pool.emptyCache();
  EXPECT_EQ(other.finished, other.queued);
  EXPECT_EQ(reservedBytes(), 0);
}

TEST(
    BlockPoolCapacityTest,
    ARequestThatDoesNotFitGivesTheCacheBackAndTriesAgain) {
  FakeStream stream, other;
  FakeDevice device(30 * kMiB);
  TestPool pool(device);
  pool.free(pool.allocate(20 * kMiB, &other));
  EXPECT_EQ(pool.tryAllocate(16 * kMiB, &stream), nullptr);
  EXPECT_EQ(pool.stats().retries, 0);
  EXPECT_NE(pool.allocate(16 * kMiB, &stream), nullptr);
  const PoolStats stats = pool.stats();
  EXPECT_EQ(stats.retries, 1);
  EXPECT_EQ(stats.outOfMemory, 0);
  EXPECT_EQ(stats.maps, 2);
  EXPECT_EQ(stats.unmaps, 1);
}

TEST(BlockPoolCapacityTest, ARequestThatDoesNotFitWaitsForParkedBlocks) {
  FakeStream stream, other;
  FakeDevice device(20 * kMiB);
  TestPool pool(device);
  void* pointer = pool.allocate(20 * kMiB, &stream);
  pool.recordStream(pointer, &other);
  pool.free(pointer);
  EXPECT_EQ(pool.tryAllocate(20 * kMiB, &stream), nullptr);
  EXPECT_NE(pool.allocate(20 * kMiB, &stream), nullptr);
}

TEST(BlockPoolCapacityTest, OutOfMemoryIsCountedAndChangesNothingElse) {
  FakeStream stream;
  FakeDevice device(30 * kMiB);
  TestPool pool(device);
  void* kept = pool.allocate(20 * kMiB, &stream);
  EXPECT_EQ(pool.allocate(12 * kMiB, &stream), nullptr);
  const PoolStats stats = pool.stats();
  EXPECT_EQ(stats.outOfMemory, 1);
  EXPECT_EQ(stats.allocation[PoolStats::All].current, 1);
  EXPECT_TRUE(pool.free(kept));
  EXPECT_NE(pool.allocate(12 * kMiB, &stream), nullptr);
}

// --- waiting without the lock -------------------------------------------------

// What runs on the device may need the pool to come to its end, so the fake
// device lets another thread use the pool wherever a real one waits.
class BlockPoolLockTest : public BlockPoolTest {
 protected:
  void useThePoolWhereverTheDeviceWaits() {
    device.onWait = [this] {
      const auto answer = std::async(std::launch::async, [this] {
        void* pointer = pool.allocate(512, &stream);
        pool.free(pointer);
        pool.stats();
      });
      // With the lock held the other thread cannot end before this call does.
      const bool ended = answer.wait_for(std::chrono::seconds(20)) ==
          std::future_status::ready;
      EXPECT_TRUE(ended) << "the pool waits with its lock held";
      ++waits;
    };
  }

  int waits = 0;
};

TEST_F(BlockPoolLockTest, SegmentsAreUnmappedWithoutTheLock) {
  pool.free(take(10 * kMiB));
  useThePoolWhereverTheDeviceWaits();
  pool.emptyCache();
  EXPECT_EQ(waits, 1);
  device.onWait = nullptr;
}

TEST_F(BlockPoolLockTest, EventsAreWaitedForWithoutTheLock) {
  char* pointer = take(512);
  pool.recordStream(pointer, &other);
  pool.free(pointer);
  take(512); // keeps the segment
  useThePoolWhereverTheDeviceWaits();
  pool.emptyCache();
  EXPECT_EQ(waits, 1);
  device.onWait = nullptr;
}

TEST(BlockPoolCapacityTest, ARetryTakesWhatAnotherThreadFreedMeanwhile) {
  FakeStream stream, other;
  FakeDevice device(40 * kMiB);
  TestPool pool(device);
  void* parked = pool.allocate(2 * kMiB, &other); // a segment of 20 MiB
  void* held = pool.allocate(2 * kMiB, &stream); // and another
  pool.recordStream(parked, &stream);
  pool.free(parked);
  device.onWait = [&] {
    device.onWait = nullptr;
    std::thread([&] { pool.free(held); }).join();
  };
  EXPECT_NE(pool.allocate(22 * kMiB, &stream), nullptr);
  EXPECT_EQ(device.segments.size(), 1u);
}

} // namespace
} // namespace openreg::testing
