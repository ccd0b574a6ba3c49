// The block pool from several threads at once. Free of torch, so that it also runs
// under the sanitizers.
#include "fake_device.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

namespace openreg::testing {
namespace {

/// Segments of real memory, streams that are always done with what they were
/// given, or, by a coin, not yet.
class HeapDevice final : public BlockDevice {
 public:
  explicit HeapDevice(size_t capacity) : capacity_(capacity) {}

  void* mapSegment(size_t bytes, Stream /*stream*/) override {
    if (used_.fetch_add(bytes) + bytes > capacity_) {
      used_ -= bytes;
      return nullptr;
    }
    auto memory = std::make_unique<char[]>(bytes);
    void* segment = memory.get();
    const std::lock_guard lock(mutex_);
    segments_[segment] = {std::move(memory), bytes};
    return segment;
  }
  void unmapSegment(void* segment) override {
    const std::lock_guard lock(mutex_);
    const auto found = segments_.find(segment);
    ASSERT_NE(found, segments_.end());
    used_ -= found->second.second;
    segments_.erase(found);
  }
  Event record(Stream /*stream*/) override {
    ++events_;
    return new std::atomic<int>(2); // happens when asked for the second time
  }
  bool finished(Event event) override {
    return --*static_cast<std::atomic<int>*>(event) <= 0;
  }
  void wait(Event /*event*/) override {}
  void destroy(Event event) override {
    --events_;
    delete static_cast<std::atomic<int>*>(event);
  }

  size_t used() const {
    return used_;
  }
  int events() const {
    return events_;
  }

 private:
  const size_t capacity_;
  std::atomic<size_t> used_{0};
  std::atomic<int> events_{0};
  std::mutex mutex_;
  std::map<void*, std::pair<std::unique_ptr<char[]>, size_t>> segments_;
};

void inThreads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back(work, i);
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

class BlockPoolThreadTest : public ::testing::Test {
 protected:
  static constexpr int kRounds = 2'000;

  // Each thread writes its mark over its blocks and finds it again: an overlap is
  // a wrong mark, and a race or a wild write under a sanitizer.
  void work(int thread) {
    struct Held {
      char* pointer;
      size_t bytes;
    };
    std::mt19937_64 random(static_cast<uint64_t>(thread));
    std::vector<Held> held;
    const char mark = static_cast<char>('a' + thread);
    const auto drop = [&] {
      std::swap(held[random() % held.size()], held.back());
      const auto [pointer, bytes] = held.back();
      held.pop_back();
      EXPECT_EQ(pointer[0], mark);
      EXPECT_EQ(pointer[bytes - 1], mark);
      EXPECT_TRUE(pool.free(pointer));
    };
    for (int round = 0; round < kRounds; ++round) {
      const size_t bytes = 1 + random() % (round % 50 == 0 ? 3 * kMiB : 5'000);
      void* pointer = pool.allocate(bytes, &streams[random() % 2]);
      if (pointer) {
        std::memset(pointer, mark, bytes);
        held.push_back({static_cast<char*>(pointer), bytes});
        if (random() % 4 == 0) {
          EXPECT_TRUE(pool.recordStream(pointer, &streams[random() % 2]));
        }
      }
      while (held.size() > 20) {
        drop();
      }
      if (random() % 200 == 0) {
        pool.emptyCache();
      }
    }
    while (!held.empty()) {
      drop();
    }
  }

  void expectNothingLeft() {
    pool.emptyCache();
    PoolStats stats = pool.stats();
    stats.forEach([](const PoolStats::Array& array) {
      for (const auto& stat : array) {
        EXPECT_EQ(stat.current, 0);
        EXPECT_EQ(stat.allocated, stat.freed);
      }
    });
    EXPECT_TRUE(pool.snapshot().empty());
    EXPECT_EQ(device.used(), 0u);
    EXPECT_EQ(device.events(), 0);
  }

  HeapDevice device{64 * kMiB};
  BlockPool pool{device};
  FakeStream streams[2];
};

TEST_F(BlockPoolThreadTest, ThreadsNeverGetMemoryThatAnotherHolds) {
  inThreads(4, [&](int thread) { work(thread); });
  expectNothingLeft();
}

TEST_F(BlockPoolThreadTest, EverythingElseMayHappenMeanwhile) {
  std::atomic<int> working{3};
  std::atomic<int> failures{0};
  pool.observeOutOfMemory([&](const PoolOutOfMemory& /*what*/) {
    ++failures;
    pool.stats();
  });
  const PoolId ids[] = {{0, 1}, {0, 2}};
  const auto meddle = [&] {
    for (uint64_t i = 0; working > 0; ++i) {
      const PoolId id = ids[i % 2];
      // All threads but this one allocate to the pool.
      const auto self = std::this_thread::get_id();
      const bool begun = pool.beginAllocateToPool(
          id, [self](void*) { return std::this_thread::get_id() != self; });
      pool.recordHistory(i % 3 != 0, PoolRecord::All, 100);
      pool.setLimit(i % 4 == 0 ? 30 * kMiB : SIZE_MAX);
      PoolConfig config;
      config.garbageCollectionThreshold = i % 8 == 0 ? 0.5 : 0;
      config.maxSplitSize = i % 5 == 0 ? 20 * kMiB : SIZE_MAX;
      pool.setConfig(config);
      size_t active = 0;
      for (const auto& segment : pool.snapshot()) {
        active += segment.active;
        EXPECT_LE(segment.active, segment.size);
      }
      EXPECT_LE(active, 64 * kMiB);
      pool.history();
      pool.resetPeakStats();
      std::this_thread::yield();
      EXPECT_TRUE(begun);
      EXPECT_TRUE(pool.endAllocateToPool(id));
      EXPECT_TRUE(pool.releasePool(id));
      pool.emptyCache(id);
    }
  };
  inThreads(4, [&](int thread) {
    if (thread == 3) {
      meddle();
    } else {
      work(thread);
      --working;
    }
  });
  pool.recordHistory(false);
  expectNothingLeft();
  EXPECT_EQ(pool.stats().outOfMemory, failures);
}

// More threads than cores: who holds the lock may have lost its core.
TEST(PoolLockTest, ManyThreadsExcludeEachOther) {
  constexpr int kThreads = 16, kRounds = 5'000;
  c10::openreg::PoolLock lock;
  int64_t sum = 0; // not atomic: the lock must do
  inThreads(kThreads, [&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      const std::lock_guard guard(lock);
      ++sum;
      if (thread == 0 && round % 500 == 0) {
        std::this_thread::yield(); // with the lock held
      }
    }
  });
  EXPECT_EQ(sum, kThreads * kRounds);
}

} // namespace
} // namespace openreg::testing
