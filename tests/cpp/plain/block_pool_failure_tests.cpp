// The block pool when the device gives no memory. Free of torch, so that it also
// runs under the sanitizers.
#include "fake_device.h"

#include <stdexcept>

namespace openreg::testing {
namespace {

/// Allocations and frees of many sizes, on two streams and in a private pool.
/// Returns how many allocations failed.
int runProgram(BlockPool& pool, FakeStream& stream, FakeStream& other) {
  constexpr size_t kSizes[] = {
      512, 3 * kMiB, 700 << 10, 30 * kMiB, 1, 9 * kMiB, kMiB, 12 * kMiB};
  constexpr PoolId kPrivate{0, 1};
  int failed = 0, round = 0;
  std::vector<void*> live;
  for (FakeStream* of : {&stream, &other, &stream}) {
    const bool privately = round++ == 2;
    if (privately) {
      pool.beginAllocateToPool(kPrivate, [](void*) { return true; });
    }
    for (const size_t bytes : kSizes) {
      void* pointer = nullptr;
      try {
        pointer = pool.allocate(bytes, of);
      } catch (const std::runtime_error&) { // of the device
      }
      failed += pointer == nullptr;
      live.push_back(pointer);
      if (pointer && live.size() % 3 == 0) {
        EXPECT_TRUE(pool.recordStream(pointer, &other));
      }
      if (live.size() % 4 == 0) {
        void* freed = live[live.size() / 2];
        EXPECT_EQ(pool.free(freed), freed != nullptr);
        live[live.size() / 2] = nullptr;
      }
    }
    if (privately) {
      pool.endAllocateToPool(kPrivate);
      pool.releasePool(kPrivate);
    }
  }
  for (void* pointer : live) {
    EXPECT_EQ(pool.free(pointer), pointer != nullptr);
  }
  pool.emptyCache();
  return failed;
}

class BlockPoolFailureTest : public ::testing::Test {
 protected:
  struct Outcome {
    int failed;
    PoolStats stats;
  };

  // After whatever happened nothing is left, and the pool works as a new one.
  Outcome run() {
    BlockPool pool(device);
    device.mapped.clear();
    Outcome outcome{runProgram(pool, stream, other), pool.stats()};
    outcome.stats.forEach([](const PoolStats::Array& array) {
      for (const auto& stat : array) {
        EXPECT_EQ(stat.current, 0);
        EXPECT_EQ(stat.allocated, stat.freed);
      }
    });
    EXPECT_TRUE(pool.snapshot().empty());
    EXPECT_TRUE(device.segments.empty());
    EXPECT_EQ(device.events(), 0u);
    device.onMap = nullptr;
    EXPECT_EQ(runProgram(pool, stream, other), 0);
    return outcome;
  }

  // How often the program asks the device for memory.
  size_t maps() {
    BlockPool pool(device);
    device.mapped.clear();
    EXPECT_EQ(runProgram(pool, stream, other), 0);
    EXPECT_GT(device.mapped.size(), 10u);
    return device.mapped.size();
  }

  FakeStream stream, other;
  FakeDevice device;
};

TEST_F(BlockPoolFailureTest, OneFailureIsMadeGoodByTryingAgain) {
  const size_t count = maps();
  int64_t retries = 0;
  for (size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(::testing::Message() << "map " << i << " fails");
    device.onMap = [i](size_t index) { return index != i; };
    const auto [failed, stats] = run();
    // In a private pool there is no second try.
    EXPECT_EQ(stats.retries + failed, 1);
    EXPECT_EQ(stats.outOfMemory, failed);
    retries += stats.retries;
  }
  EXPECT_GT(retries, 5);
  EXPECT_LT(retries, static_cast<int64_t>(count));
}

TEST_F(BlockPoolFailureTest, AfterTwoFailuresOneAllocationFailsAndNothingElse) {
  const size_t count = maps();
  for (size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(::testing::Message() << "maps " << i << ", " << i + 1);
    device.onMap = [i](size_t index) { return index != i && index != i + 1; };
    const auto [failed, stats] = run();
    EXPECT_GE(failed, 1);
    EXPECT_LE(failed, 2);
    EXPECT_EQ(stats.outOfMemory, failed);
  }
}

TEST_F(
    BlockPoolFailureTest,
    ADeviceThatFailsFromSomePointOnLeavesThePoolIntact) {
  const size_t count = maps();
  for (size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(::testing::Message() << "from map " << i << " on");
    device.onMap = [i](size_t index) { return index < i; };
    const auto [failed, stats] = run();
    EXPECT_GE(failed, 1);
    EXPECT_EQ(stats.outOfMemory, failed);
    EXPECT_LE(stats.maps, static_cast<int64_t>(i));
  }
}

TEST_F(BlockPoolFailureTest, ABrokenDeviceKeepsTheCache) {
  BlockPool pool(device);
  EXPECT_TRUE(pool.free(pool.allocate(512, &stream)));
  device.broken = true;
  EXPECT_THROW(pool.emptyCache(), std::runtime_error);
  EXPECT_EQ(pool.stats().unmaps, 0);
  EXPECT_EQ(pool.snapshot().size(), 1u);
  void* used = pool.allocate(512, &stream);
  pool.emptyCache(); // there is nothing to give back
  device.broken = false;
  EXPECT_TRUE(pool.free(used));
  pool.emptyCache();
  EXPECT_TRUE(device.segments.empty());
}

TEST_F(BlockPoolFailureTest, AnErrorOfTheDevicePassesThroughThePool) {
  const size_t count = maps();
  for (size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(::testing::Message() << "map " << i << " throws");
    device.onMap = [i](size_t index) {
      if (index == i) {
        throw std::runtime_error("the device is broken");
      }
      return true;
    };
    const auto [failed, stats] = run();
    EXPECT_EQ(failed, 1);
    EXPECT_EQ(stats.outOfMemory, 0); // it is another error
    EXPECT_EQ(stats.retries, 0);
  }
}

} // namespace
} // namespace openreg::testing
