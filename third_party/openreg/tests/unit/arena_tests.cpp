// The bookkeeping of device memory against a simple model.
#include "arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

namespace openreg {
namespace {

constexpr size_t kPage = 4096;

TEST(ArenaTest, TheSmallestHoleThatFitsIsTaken) {
  Arena arena(100 * kPage, 100 * kPage);
  const size_t large = *arena.allocate(3 * kPage);
  arena.allocate(kPage);
  const size_t small = *arena.allocate(2 * kPage);
  arena.allocate(kPage);
  arena.release(large);
  arena.release(small);
  EXPECT_EQ(arena.allocate(2 * kPage), small);
  EXPECT_EQ(arena.allocate(2 * kPage), large);
}

TEST(ArenaTest, NeighboursCoalesceInEveryOrder) {
  for (const auto& order :
       {std::array{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}}) {
    Arena arena(3 * kPage, 3 * kPage);
    size_t offsets[3];
    for (size_t& offset : offsets) {
      offset = *arena.allocate(kPage);
    }
    for (int i : order) {
      arena.release(offsets[i]);
    }
    EXPECT_EQ(arena.allocate(3 * kPage), 0u);
  }
}

TEST(ArenaTest, CapacityBindsThoughThereIsAddressSpace) {
  Arena arena(8 * kPage, 2 * kPage);
  const size_t first = *arena.allocate(kPage);
  EXPECT_TRUE(arena.allocate(kPage));
  EXPECT_FALSE(arena.allocate(kPage));
  arena.release(first);
  EXPECT_TRUE(arena.allocate(kPage));
}

TEST(ArenaTest, CleaningCoversWhatWasFreedAndNothingThatIsLive) {
  Arena arena(100 * kPage, 100 * kPage);
  const size_t a = *arena.allocate(2 * kPage);
  const size_t b = *arena.allocate(kPage);
  const size_t c = *arena.allocate(2 * kPage);
  arena.allocate(kPage);
  arena.release(a);
  arena.release(c);
  EXPECT_EQ(arena.dirtyBytes(), 4 * kPage);
  std::map<size_t, size_t> cleaned;
  const auto clean = [&](size_t offset, size_t bytes) {
    cleaned[offset] = bytes;
  };
  arena.cleanDirty(clean);
  EXPECT_EQ(
      cleaned, (std::map<size_t, size_t>{{a, 2 * kPage}, {c, 2 * kPage}}));
  EXPECT_EQ(arena.dirtyBytes(), 0u);

  cleaned.clear();
  arena.release(b); // joins the two clean holes
  arena.cleanDirty(clean);
  EXPECT_EQ(cleaned, (std::map<size_t, size_t>{{b, kPage}}));
}

TEST(ArenaTest, AReusedBlockIsNoLongerDirty) {
  Arena arena(100 * kPage, 100 * kPage);
  arena.release(*arena.allocate(16 * kPage));
  arena.allocate(16 * kPage);
  EXPECT_EQ(arena.dirtyBytes(), 0u);
}

size_t largestGap(const std::map<size_t, size_t>& live, size_t space) {
  size_t largest = 0, end = 0;
  for (const auto& [offset, bytes] : live) {
    largest = std::max(largest, offset - end);
    end = offset + bytes;
  }
  return std::max(largest, space - end);
}

TEST(ArenaTest, RandomUseAgreesWithAModel) {
  constexpr size_t kSpace = 512;
  Arena arena(kSpace * kPage, kSpace / 2 * kPage);
  std::map<size_t, size_t> live; // offset, bytes
  size_t used = 0;
  std::mt19937 random(7);
  for (int step = 0; step < 200000; ++step) {
    if (random() % 2 == 0) {
      const size_t bytes = (1 + random() % 16) * kPage;
      const auto offset = arena.allocate(bytes);
      if (!offset) {
        ASSERT_TRUE(
            used + bytes > kSpace / 2 * kPage ||
            largestGap(live, kSpace * kPage) < bytes)
            << "refused without need";
        continue;
      }
      const auto next = live.upper_bound(*offset);
      ASSERT_TRUE(next == live.end() || *offset + bytes <= next->first);
      ASSERT_TRUE(
          next == live.begin() ||
          std::prev(next)->first + std::prev(next)->second <= *offset);
      ASSERT_LE(*offset + bytes, kSpace * kPage);
      live[*offset] = bytes;
      used += bytes;
    } else if (!live.empty()) {
      auto victim = live.lower_bound(random() % (kSpace * kPage));
      victim = victim == live.end() ? live.begin() : victim;
      used -= victim->second;
      arena.release(victim->first);
      live.erase(victim);
    }
    ASSERT_EQ(arena.used(), used);
    const size_t probe = random() % (kSpace * kPage);
    const auto after = live.upper_bound(probe);
    const bool inside = after != live.begin() &&
        probe < std::prev(after)->first + std::prev(after)->second;
    const Arena::Entry* found = arena.find(probe);
    ASSERT_EQ(found != nullptr, inside);
    if (inside) {
      ASSERT_EQ(found->first, std::prev(after)->first);
    }
  }
  for (const auto& [offset, bytes] : live) {
    arena.release(offset);
  }
  EXPECT_EQ(arena.used(), 0u);
  EXPECT_EQ(arena.allocate(kSpace / 2 * kPage), 0u);
}

TEST(ArenaTest, BorrowedRangesTakeSpaceButNoMemory) {
  constexpr size_t kSpace = 8;
  Arena arena(kSpace * kPage, kPage);
  const auto borrowed = arena.borrow(2 * kPage);
  ASSERT_TRUE(borrowed);
  EXPECT_EQ(arena.used(), 0u);
  const auto own = arena.allocate(kPage);
  ASSERT_TRUE(own);
  EXPECT_NE(*own, *borrowed);
  EXPECT_TRUE(arena.find(*borrowed)->second.borrowed);
  EXPECT_FALSE(arena.find(*own)->second.borrowed);
  EXPECT_FALSE(arena.borrow(kSpace * kPage)) << "not that much space is left";

  arena.release(*borrowed);
  EXPECT_EQ(arena.used(), kPage);
  EXPECT_EQ(arena.find(*borrowed), nullptr);
}

} // namespace
} // namespace openreg
