// The sanitizer's view of allocations, and of memory that nobody has written to.
#include "sanitizer/Checker.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace {

using namespace c10::openreg::sanitizer;

// --- blocks -------------------------------------------------------------------

TEST(BlocksTest, ABlockIsFoundByAnAddressInsideOrJustBehind) {
  Blocks blocks;
  blocks.add({{100, 200}});
  EXPECT_EQ(blocks.around(99), nullptr);
  ASSERT_NE(blocks.around(100), nullptr);
  ASSERT_NE(blocks.around(199), nullptr);
  EXPECT_EQ(blocks.around(200), nullptr);
  EXPECT_NE(blocks.around(200, 16), nullptr);
  EXPECT_EQ(blocks.around(216, 16), nullptr);
}

TEST(BlocksTest, ANewBlockTakesThePlaceOfThoseThatItOverlaps) {
  Blocks blocks;
  blocks.add({{100, 200}});
  blocks.add({{200, 300}});
  blocks.add({{150, 250}});
  EXPECT_EQ(blocks.around(120), nullptr);
  EXPECT_EQ(blocks.around(260), nullptr);
  EXPECT_EQ(blocks.around(170)->range.begin, 150u);
}

// --- unwritten bytes ----------------------------------------------------------

TEST(UnwrittenBytesTest, ItIsASetOfAddresses) {
  std::mt19937 random(3);
  UnwrittenBytes bytes;
  std::set<uintptr_t> model;
  for (int step = 0; step < 3000; ++step) {
    const uintptr_t begin = random() % 40;
    const Range range{begin, begin + random() % 12};
    const uintptr_t to = 60 + random() % 40;
    switch (random() % 3) {
      case 0:
        bytes.add(range);
        for (uintptr_t i = range.begin; i < range.end; ++i) {
          model.insert(i);
        }
        break;
      case 1:
        bytes.remove(range);
        for (uintptr_t i = range.begin; i < range.end; ++i) {
          model.erase(i);
        }
        break;
      default:
        bytes.copy(range, to);
        for (uintptr_t i = range.begin; i < range.end; ++i) {
          model.erase(to + i - range.begin);
          if (model.contains(i)) {
            model.insert(to + i - range.begin);
          }
        }
    }
    const uintptr_t place = random() % 110;
    const Range asked{place, place + 1 + random() % 9};
    const auto found = bytes.findIn(asked);
    const auto first = model.lower_bound(asked.begin);
    const bool expected = first != model.end() && *first < asked.end;
    ASSERT_EQ(found.has_value(), expected) << "step " << step;
    if (expected) {
      EXPECT_EQ(found->begin, *first);
      EXPECT_TRUE(bytes.containsAll(*found));
    }
  }
}

// --- the checker --------------------------------------------------------------

MemoryUse read(Range range) {
  return {range, false, true, 0};
}
MemoryUse write(Range range) {
  return {range, true, true, 0};
}

class InitCheckerTest : public ::testing::Test {
 protected:
  bool finds(const char* name, std::vector<MemoryUse> uses) {
    return checker_.run(name, uses).has_value();
  }
  void SetUp() override {
    checker_.allocate({0, 100});
    checker_.allocate({1000, 1100});
  }
  InitChecker checker_;
};

TEST_F(InitCheckerTest, AKernelThatReadsUnwrittenBytesIsFoundOnce) {
  EXPECT_TRUE(finds("aten::add", {read({0, 8}), write({1000, 1008})}));
  EXPECT_FALSE(finds("aten::add", {read({0, 8}), write({1000, 1008})}));
}

TEST_F(InitCheckerTest, WrittenAndFreedBytesAreFine) {
  EXPECT_FALSE(finds("aten::fill_", {write({0, 50})}));
  EXPECT_FALSE(finds("aten::add", {read({0, 50})}));
  checker_.free({50, 100});
  EXPECT_FALSE(finds("aten::add", {read({0, 100})}));
}

TEST_F(InitCheckerTest, ACopyPassesOnWhatItReads) {
  EXPECT_FALSE(finds("aten::fill_", {write({0, 50})}));
  EXPECT_FALSE(finds("copy", {read({0, 100}), write({1000, 1100})}));
  EXPECT_FALSE(finds("aten::sum", {read({1000, 1050})}));
  EXPECT_TRUE(finds("aten::sum", {read({1000, 1100})}));
}

TEST_F(InitCheckerTest, ACopyThatChangesTheLayoutPassesOnTheWhole) {
  EXPECT_FALSE(finds(
      "aten::copy_", {read({0, 8}), read({16, 24}), write({1000, 1016})}));
  EXPECT_TRUE(finds("aten::sum", {read({1000, 1004})}));
}

TEST_F(InitCheckerTest, ACopyToTheHostIsARead) {
  EXPECT_TRUE(finds("copy", {read({0, 8}), {{5000, 5008}, true, false, 0}}));
}

TEST_F(InitCheckerTest, ChangingInPlaceReadsAndOverwritingDoesNot) {
  EXPECT_FALSE(finds("aten::normal_", {write({0, 8})}));
  EXPECT_TRUE(finds("aten::add_", {write({8, 16})}));
}

TEST_F(InitCheckerTest, WhatMayBeIgnoredIsNotFound) {
  // beta may be 0.
  EXPECT_FALSE(finds("aten::addmm", {read({0, 8})}));
  EXPECT_TRUE(finds("aten::addmm", {read({0, 8}), read({8, 16})}));
  EXPECT_FALSE(finds("occl:all_reduce", {read({50, 60}), write({50, 60})}));
  EXPECT_FALSE(finds("aten::sum", {read({50, 60})}));
}

TEST_F(InitCheckerTest, RangesThatAreNotToldCountAsWritten) {
  EXPECT_FALSE(finds("aten::fill_", {{{0, 4}, true, true, 100}}));
  EXPECT_FALSE(finds("aten::sum", {read({0, 100})}));
}

// --- all checks ---------------------------------------------------------------

const void* address(uintptr_t number) {
  return reinterpret_cast<const void*>(number);
}

class CheckerTest : public ::testing::Test {
 protected:
  std::vector<Finding::Kind> launch(uintptr_t stream, const MemoryUse& use) {
    const auto work = std::make_shared<const Work>(
        "kernel", address(stream), 0, checker_.nextNumber(), nullptr, nullptr);
    Findings findings;
    checker_.launch(work, {&use, 1}, findings);
    std::vector<Finding::Kind> kinds;
    for (const Finding& finding : findings) {
      kinds.push_back(finding.kind);
    }
    return kinds;
  }
  void allocate(Range range) {
    checker_.allocate({range, address(1)});
  }

  using Kinds = std::vector<Finding::Kind>;
  Checker checker_{kRace | kMemory};
};

TEST_F(CheckerTest, FreedMemoryAndMemoryBehindTheEndAreFound) {
  allocate({1000, 1100});
  EXPECT_EQ(launch(1, read({1000, 1100})), Kinds{});
  EXPECT_EQ(launch(1, read({1050, 1108})), Kinds{Finding::OutOfBounds});
  checker_.free(address(1000), nullptr);
  EXPECT_EQ(launch(1, write({1000, 1001})), Kinds{Finding::UseAfterFree});
  checker_.map({1000, 2000});
  EXPECT_EQ(launch(1, write({1000, 1001})), Kinds{});
}

TEST_F(CheckerTest, MemoryThatAnotherStreamUsesIsReusedOnlyAfterARecord) {
  for (const bool recorded : {true, false}) {
    allocate({1000, 1100});
    EXPECT_EQ(launch(2, read({1000, 1100})), Kinds{});
    if (recorded) {
      checker_.recordStream(address(1000), address(2));
    }
    checker_.free(address(1000), nullptr);
    allocate({1000, 1050});
    EXPECT_EQ(
        launch(1, write({1000, 1050})),
        recorded ? Kinds{} : Kinds{Finding::Reuse});
    checker_.map({1000, 1100});
  }
}

TEST_F(CheckerTest, OnlyPinnedMemoryOfTheHostIsTracked) {
  const MemoryUse use{{5000, 5008}, true, false};
  EXPECT_FALSE(checker_.tracks({&use, 1}));
  checker_.pin({{5000, 5100}});
  EXPECT_TRUE(checker_.tracks({&use, 1}));
  EXPECT_EQ(checker_.liveBlocks().size(), 1u);
  Findings findings;
  checker_.unpin(address(5000), findings);
  EXPECT_FALSE(checker_.tracks({&use, 1}));
  EXPECT_TRUE(checker_.liveBlocks().empty());
}

} // namespace
