// Where the threads of a team belong.
#include "runtime/OpenRegTeam.h"

#include <gtest/gtest.h>

#include <vector>

namespace c10::openreg::testing {
namespace {

cpu_set_t setOf(std::initializer_list<int> processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) {
    CPU_SET(processor, &set);
  }
  return set;
}

std::vector<int> spread(
    const std::vector<int>& places,
    std::initializer_list<int> allowed) {
  std::vector<int> found;
  for (size_t member = 0; member < places.size(); ++member) {
    found.push_back(
        processorFor(static_cast<int>(member), places, setOf(allowed)));
  }
  return found;
}

using Places = std::vector<int>;

TEST(TeamTest, ThreadsOnProcessorsOfTheirOwnStay) {
  EXPECT_EQ(spread({1, 0}, {0, 1}), (Places{1, 0}));
  EXPECT_EQ(spread({5, 2, 9}, {2, 5, 7, 9}), (Places{5, 2, 9}));
}

TEST(TeamTest, AThreadThatSharesAProcessorMovesToAFreeOne) {
  EXPECT_EQ(spread({0, 0}, {0, 1}), (Places{0, 1}));
  EXPECT_EQ(spread({1, 1}, {0, 1}), (Places{1, 0}));
  EXPECT_EQ(spread({3, 3, 3, 0}, {0, 1, 2, 3}), (Places{3, 1, 2, 0}));
}

TEST(TeamTest, AThreadMovesOnlyWhereItMay) {
  EXPECT_EQ(spread({4, 4, 4}, {4, 6, 8}), (Places{4, 6, 8}));
}

TEST(TeamTest, WithoutAFreeProcessorAThreadStays) {
  EXPECT_EQ(spread({0, 0, 1}, {0, 1}), (Places{0, 0, 1}));
  EXPECT_EQ(spread({0, 0, 0}, {0, 1}), (Places{0, 1, 0}));
}

} // namespace
} // namespace c10::openreg::testing
