// The block pool against a model of it. Free of torch, so that it also runs under
// the sanitizers.
#include "block_pool_model.h"

#include <array>
#include <random>

namespace openreg::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSteps = 25'000;
#else
constexpr int kSteps = 250'000;
#endif

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {}

  void step() {
    const size_t choice = below(1000);
    if (choice < 450) {
      allocate();
    } else if (choice < 800) {
      freeOne();
    } else if (choice < 890) {
      recordStream();
    } else if (choice < 980) {
      streams_[below(kStreams)].runAll();
    } else if (choice < 984) {
      beginRoute();
    } else if (choice < 990) {
      endRoute();
    } else if (choice < 995) {
      releasePool();
    } else if (choice < 996) {
      setLimit();
    } else if (choice < 998) {
      emptyCache(static_cast<int>(below(kPools)));
    } else if (choice < 999) {
      pool_.resetPeakStats();
      peaks_ = {};
    }
    compareFigures();
    if (choice % 64 == 0) {
      compareSnapshot();
    }
  }

  void finish() {
    while (!live_.empty()) {
      freeOne();
    }
    while (!model_.routes.empty()) {
      endRoute();
    }
    while (model_.users[1] + model_.users[2] > 0) {
      releasePool();
    }
    emptyCache(Model::kCommon);
    compareFigures();
    EXPECT_TRUE(pool_.snapshot().empty());
    EXPECT_TRUE(device_.segments.empty());
    EXPECT_EQ(device_.events(), 0u);
    // All must have been met, or the test shows less than it says.
    EXPECT_GT(outOfMemory_, 10);
    EXPECT_GT(retries_, 10);
    EXPECT_GT(privately_, 100);
    EXPECT_GT(snapshots_, 100);
  }

 private:
  static constexpr size_t kStreams = 3;
  static constexpr size_t kPools = 3;
  static constexpr size_t kCapacity = 200 * kMiB;
  // Places in the order of PoolStats::forEach().
  static constexpr size_t kInactiveSplit = 3, kInactiveSplitBytes = 7;

  size_t below(size_t bound) {
    return random_() % bound;
  }

  static PoolId idOf(int pool) {
    return {0, static_cast<uint64_t>(pool)};
  }

  // --- memory ---

  size_t randomSize() {
    const size_t most[] = {2000, 100'000, kMiB, 4 * kMiB, 30 * kMiB};
    return 1 + below(most[below(std::size(most))]);
  }

  static size_t segmentSize(size_t size) {
    return Model::isSmall(size) ? 2 * kMiB
        : size < 10 * kMiB      ? 20 * kMiB
                           : (size + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
  }

  bool hasRoom(size_t size) const {
    const auto reserved = static_cast<size_t>(
        model_.recount().reservedBytes[PoolStats::All].current);
    return reserved + segmentSize(size) <= std::min(kCapacity, limit_);
  }

  void allocate() {
    const size_t bytes = randomSize();
    const size_t size = (bytes + 511) / 512 * 512;
    FakeStream* stream = &streams_[below(kStreams)];
    const bool mayWait = below(8) != 0;
    device_.mapped.clear();
    model_.reclaim();
    auto expected = model_.bestFit(size, stream);
    const bool retry =
        mayWait && !expected && !hasRoom(size) && model_.routes.empty();

    auto* pointer = static_cast<char*>(
        mayWait ? pool_.allocate(bytes, stream)
                : pool_.tryAllocate(bytes, stream));
    if (retry) { // then the pool has waited for all parked blocks
      ++retries_;
      model_.reclaim();
      model_.release(Model::kCommon);
      expected = model_.bestFit(size, stream);
    } else if (expected) {
      EXPECT_TRUE(device_.mapped.empty());
    }
    if (!expected && hasRoom(size)) {
      ASSERT_EQ(device_.segments.at(pointer), segmentSize(size));
      model_.addSegment(
          pointer, segmentSize(size), stream, Model::isSmall(size));
      expected = pointer;
    }
    ASSERT_EQ(pointer, expected.value_or(nullptr));
    if (!pointer) {
      outOfMemory_ += mayWait;
      return;
    }
    model_.allocate(pointer, size, bytes);
    live_.push_back(pointer);
    privately_ += !model_.routes.empty();
  }

  void freeOne() {
    if (live_.empty()) {
      return;
    }
    std::swap(live_[below(live_.size())], live_.back());
    char* pointer = live_.back();
    live_.pop_back();
    model_.free(pointer);
    EXPECT_TRUE(pool_.free(pointer));
    EXPECT_FALSE(pool_.free(pointer));
  }

  void recordStream() {
    if (!live_.empty()) {
      char* pointer = live_[below(live_.size())];
      FakeStream* stream = &streams_[below(kStreams)];
      model_.recordStream(pointer, stream);
      EXPECT_TRUE(pool_.recordStream(pointer, stream));
    }
  }

  void emptyCache(int pool) {
    pool_.emptyCache(idOf(pool));
    // The events have happened: the device waited for them.
    if (pool == Model::kCommon) {
      model_.reclaim();
    } else if (model_.users[pool] == 0) {
      model_.reclaimPool(pool);
    }
    model_.release(pool);
  }

  void setLimit() {
    limit_ = below(3) == 0 ? SIZE_MAX : (60 + below(200)) * kMiB;
    pool_.setLimit(limit_);
  }

  // --- private pools ---

  bool isRouted(int pool) const {
    return std::any_of(
        model_.routes.begin(), model_.routes.end(), [&](const auto& route) {
          return route.pool == pool;
        });
  }

  void beginRoute() {
    const int pool = 1 + static_cast<int>(below(kPools - 1));
    FakeStream* only = below(2) == 0 ? nullptr : &streams_[below(kStreams)];
    const bool begun = pool_.beginAllocateToPool(
        idOf(pool), [only](void* stream) { return !only || stream == only; });
    EXPECT_EQ(begun, !isRouted(pool));
    if (begun) {
      model_.routes.push_back({pool, only});
      ++model_.users[pool];
    }
  }

  void endRoute() {
    if (!model_.routes.empty()) {
      const auto route = model_.routes.begin() +
          static_cast<ptrdiff_t>(below(model_.routes.size()));
      EXPECT_TRUE(pool_.endAllocateToPool(idOf(route->pool)));
      model_.routes.erase(route);
    }
  }

  void releasePool() {
    const int pool = 1 + static_cast<int>(below(kPools - 1));
    if (model_.users[pool] > isRouted(pool)) {
      EXPECT_TRUE(pool_.releasePool(idOf(pool)));
      --model_.users[pool];
    }
    EXPECT_EQ(pool_.poolUsers(idOf(pool)), model_.users[pool]);
  }

  // --- comparing ---

  void compareFigures() {
    PoolStats stats = pool_.stats();
    PoolStats expected = model_.recount();
    std::vector<PoolStats::Array*> counted;
    expected.forEach([&](auto& array) { counted.push_back(&array); });
    size_t i = 0;
    stats.forEach([&](PoolStats::Array& array) {
      for (size_t kind = 0; kind < array.size(); ++kind) {
        const auto& stat = array[kind];
        ASSERT_EQ(stat.current, (*counted[i])[kind].current)
            << "figure " << i << ", kind " << kind;
        ASSERT_EQ(stat.current, stat.allocated - stat.freed);
        peaks_[i][kind] = std::max(peaks_[i][kind], stat.current);
        // Between two free blocks of one operation there may be more splits
        // than before and after it.
        if (i == kInactiveSplit || i == kInactiveSplitBytes) {
          ASSERT_GE(stat.peak, peaks_[i][kind]);
        } else {
          ASSERT_EQ(stat.peak, peaks_[i][kind]);
        }
      }
      ++i;
    });
    ASSERT_EQ(stats.outOfMemory, outOfMemory_);
    ASSERT_EQ(stats.retries, retries_);
    ASSERT_EQ(stats.maps - stats.unmaps, stats.segment[PoolStats::All].current);
  }

  void compareSnapshot() {
    ++snapshots_;
    const auto expected = model_.segments();
    const auto found = pool_.snapshot();
    ASSERT_EQ(found.size(), expected.size());
    ASSERT_EQ(found.size(), device_.segments.size());
    for (size_t i = 0; i < found.size(); ++i) {
      compareSegment(found[i], expected[i]);
    }
  }

  void compareSegment(
      const PoolSegmentInfo& found,
      const Model::Segment& expected) {
    char* next = expected.pieces[0].pointer;
    ASSERT_EQ(found.size, device_.segments.at(next));
    ASSERT_EQ(found.stream, expected.stream);
    ASSERT_EQ(found.isLarge, !expected.small);
    ASSERT_EQ(found.pool, idOf(expected.pool));
    ASSERT_EQ(found.blocks.size(), expected.pieces.size());
    size_t allocated = 0, active = 0, requested = 0;
    for (size_t i = 0; i < found.blocks.size(); ++i) {
      const auto& block = found.blocks[i];
      const auto& piece = expected.pieces[i];
      const bool isFree = piece.state == Model::Free;
      ASSERT_EQ(block.address, reinterpret_cast<uintptr_t>(next));
      ASSERT_EQ(block.size, piece.size);
      ASSERT_EQ(block.requested, isFree ? 0 : piece.requested);
      ASSERT_EQ(static_cast<int>(block.state), static_cast<int>(piece.state));
      next += block.size;
      allocated += piece.state == Model::Allocated ? piece.size : 0;
      active += isFree ? 0 : piece.size;
      requested += block.requested;
    }
    ASSERT_EQ(next, expected.pieces[0].pointer + found.size);
    ASSERT_EQ(found.allocated, allocated);
    ASSERT_EQ(found.active, active);
    ASSERT_EQ(found.requested, requested);
  }

  std::mt19937_64 random_;
  std::array<FakeStream, kStreams> streams_;
  FakeDevice device_{kCapacity};
  BlockPool pool_{device_};
  Model model_;
  std::vector<char*> live_;
  size_t limit_ = SIZE_MAX;
  int64_t retries_ = 0, outOfMemory_ = 0, privately_ = 0, snapshots_ = 0;
  std::array<std::array<int64_t, PoolStats::Kinds>, 9> peaks_{};
};

class BlockPoolModelTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(
    BlockPoolModelTest,
    FiguresAndAddressesEqualTheModelsAfterEachOperation) {
  RandomProgram program(GetParam());
  for (int i = 0; i < kSteps; ++i) {
    program.step();
    if (HasFailure()) {
      FAIL() << "in step " << i;
    }
  }
  program.finish();
}

INSTANTIATE_TEST_SUITE_P(
    Seeds,
    BlockPoolModelTest,
    ::testing::Values(1, 2, 3, 4));

} // namespace
} // namespace openreg::testing
