// Red zones, freed memory that is kept back, and memory that queued work reads.
#include "sanitizer/Checker.h"

#include <gtest/gtest.h>

#include <array>

namespace {

using namespace c10::openreg::sanitizer;

const void* key(uintptr_t number) {
  return reinterpret_cast<const void*>(number);
}
const void* const kMain = key(1);
const void* const kSide = key(2);

WorkPtr work(const void* stream, const char* name) {
  return std::make_shared<const Work>(
      name, stream, stream ? 0 : -1, 0, nullptr, nullptr);
}

// --- one zone -----------------------------------------------------------------

class RedZoneTest : public ::testing::Test {
 protected:
  std::array<unsigned char, 16> bytes_{};
  RedZone zone_{{1000, 1016}, bytes_.data()};
};

TEST_F(RedZoneTest, BytesThatSomebodyWroteToAreFoundOnce) {
  zone_.fill();
  EXPECT_FALSE(zone_.takeDamage());
  bytes_[3] = 1;
  bytes_[7] = 2;
  const auto damage = zone_.takeDamage();
  ASSERT_TRUE(damage);
  EXPECT_EQ(damage->begin, 1003u);
  EXPECT_EQ(damage->end, 1008u);
  EXPECT_FALSE(zone_.takeDamage());
}

TEST_F(RedZoneTest, NothingIsKnownBeforeItIsFilled) {
  bytes_[0] = 1;
  EXPECT_FALSE(zone_.takeDamage());
}

// --- zones of blocks ----------------------------------------------------------

class CheckerZoneTest : public ::testing::Test {
 protected:
  // Blocks of 100 bytes with zones behind them, next to each other.
  void SetUp() override {
    for (const uintptr_t begin : {0u, 128u}) {
      Block block{{begin, begin + 100}, kMain};
      block.zone = std::make_shared<RedZone>(
          Range{begin + 100, begin + 128}, memory_.data() + begin + 100);
      checker_.allocate(std::move(block));
    }
  }
  std::array<unsigned char, 256> memory_{};
  Checker checker_{kMemory};
  Findings findings_;
};

TEST_F(CheckerZoneTest, AUseFillsTheZoneOfItsBlockAndWatchesTheOneBeforeToo) {
  const MemoryUse use{{130, 140}, true, true};
  EXPECT_EQ(checker_.zonesToFill({&use, 1}).size(), 1u);
  EXPECT_EQ(checker_.zonesToFill({&use, 1}).size(), 0u);
  const auto zones = checker_.zonesBeside({&use, 1});
  ASSERT_EQ(zones.size(), 2u);
  EXPECT_EQ(zones[0].zone->range().begin, 228u);
  EXPECT_EQ(zones[1].zone->range().begin, 100u);
  EXPECT_EQ(zones[1].block.range.begin, 128u);
}

TEST_F(CheckerZoneTest, TheZoneOfAFreedBlockIsNotWatched) {
  const auto zones = [&] {
    const MemoryUse use{{130, 140}, true, true};
    return checker_.zonesBeside({&use, 1});
  };
  const RedZonePtr before = zones()[1].zone;
  checker_.free(key(0), nullptr);
  EXPECT_TRUE(before->isRetired());
  EXPECT_EQ(zones().size(), 1u);
}

TEST_F(CheckerZoneTest, AResultIsLookedAtWhenItsKernelHasRun) {
  checker_.fillZone(key(128));
  checker_.addResult(work(kMain, "right"), key(128), findings_);
  EXPECT_EQ(findings_.size(), 0u);
  memory_[230] = 0;
  checker_.addResult(work(kMain, "wrong"), key(128), findings_);
  ASSERT_EQ(findings_.size(), 1u);
  EXPECT_EQ(findings_[0].kind, Finding::OutOfBounds);
  EXPECT_EQ(findings_[0].range.begin, 230u);
  EXPECT_EQ(findings_[0].later->work->name, "wrong");
}

// --- freed memory -------------------------------------------------------------

/// Frees a block of 100 bytes that another stream uses, and writes to a new one.
std::vector<Finding::Kind> useNewBlock(size_t bytes, bool waits) {
  Checker checker(kRace | kMemory);
  Findings findings;
  std::array<unsigned char, 28> zone{};
  Block block{{100, 200}, kMain};
  block.zone = std::make_shared<RedZone>(Range{200, 228}, zone.data());
  checker.allocate(std::move(block));
  const MemoryUse read{{100, 200}, false, true};
  checker.launch(work(kSide, "read"), {&read, 1}, findings);
  checker.free(key(100), nullptr);
  checker.allocate({{1000, 1000 + bytes}, kMain});
  if (waits) {
    checker.races.record(key(50), kSide);
    checker.races.wait(kMain, key(50));
  }
  const MemoryUse write{{1000, 1000 + bytes}, true, true};
  checker.launch(work(kMain, "write"), {&write, 1}, findings);
  std::vector<Finding::Kind> kinds;
  for (const Finding& finding : findings) {
    kinds.push_back(finding.kind);
  }
  return kinds;
}

TEST(FreedBlocksTest, ANewBlockCouldHaveTheMemoryOfAFreedOne) {
  using Kinds = std::vector<Finding::Kind>;
  EXPECT_EQ(useNewBlock(100, false), Kinds{Finding::Reuse});
  EXPECT_EQ(useNewBlock(60, false), Kinds{Finding::Reuse});
  EXPECT_EQ(useNewBlock(101, false), Kinds{}) << "it does not fit";
  EXPECT_EQ(useNewBlock(100, true), Kinds{});
}

// --- memory that queued work reads ----------------------------------------------

class QueuedReadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    checker_.pin({whole_});
    const MemoryUse use{whole_, false, false};
    checker_.launch(work(kSide, "copy"), {&use, 1}, findings_);
  }
  void waitForIt() {
    checker_.races.hostWaitsForStream(kSide);
    checker_.settleReads(findings_);
  }
  std::array<unsigned char, 21> bytes_{};
  const Range whole_ = rangeOf(bytes_.data(), bytes_.size());
  Checker checker_{kMemory};
  Findings findings_;
};

TEST_F(QueuedReadTest, AChangeBeforeTheHostWaitsIsFound) {
  bytes_[20] = 1;
  checker_.races.hostWaitsForStream(kMain);
  checker_.settleReads(findings_);
  EXPECT_EQ(findings_.size(), 0u) << "that was another stream";
  waitForIt();
  ASSERT_EQ(findings_.size(), 1u);
  EXPECT_EQ(findings_[0].kind, Finding::Overwritten);
  EXPECT_EQ(findings_[0].earlier->work->name, "copy");
}

TEST_F(QueuedReadTest, AChangeAfterThatIsFine) {
  waitForIt();
  bytes_[20] = 1;
  waitForIt();
  EXPECT_EQ(findings_.size(), 0u);
}

TEST_F(QueuedReadTest, AnOperatorThatWritesTooEarlyIsFoundByItself) {
  const MemoryUse write{whole_, true, false};
  checker_.actOnHost(work(nullptr, "fill_"), {&write, 1}, findings_);
  bytes_[0] = 9;
  waitForIt();
  ASSERT_EQ(findings_.size(), 1u);
  EXPECT_EQ(findings_[0].later->work->name, "fill_");
}

TEST_F(QueuedReadTest, MemoryThatGoesIsLookedAtLast) {
  bytes_[0] = 1;
  checker_.unpin(bytes_.data(), findings_);
  EXPECT_EQ(findings_.size(), 1u);
  bytes_[0] = 2;
  waitForIt();
  EXPECT_EQ(findings_.size(), 1u);
}

} // namespace
