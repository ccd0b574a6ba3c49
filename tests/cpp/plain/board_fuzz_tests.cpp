// What the fuzzer does for hours, for a second: nothing that a rank writes to the board
// may crash another one.
#include "board_samples.h"

#include <gtest/gtest.h>

#include <random>

namespace {

TEST(BoardFuzzTest, NoMutationOfALineCrashesItsReader) {
  board_samples::Victim victim;
  std::mt19937_64 random(11);
  constexpr uint64_t kWords[] = {
      0, 1, 64, 100'000, board_samples::kDevice, 1ull << 63, ~0ull};
  for (const auto& call : victim.calls()) {
    const std::string honest = victim.honestLine(call);
    EXPECT_TRUE(victim.read(call, honest));
    for (int round = 0; round < 400; ++round) {
      std::string line = honest;
      for (unsigned left = 1 + random() % 4; left > 0; --left) {
        // Words that are not zero say something: half of the changes are there.
        size_t place = random() % (line.size() / 8) * 8;
        for (int tries = 0; tries < 2000 && round % 2; ++tries) {
          uint64_t word = 0;
          std::memcpy(&word, line.data() + place, sizeof(word));
          if (word != 0) {
            break;
          }
          place = random() % (line.size() / 8) * 8;
        }
        const uint64_t word = random() % 2 ? random() : kWords[random() % 7];
        std::memcpy(line.data() + place, &word, random() % 2 ? 8 : 1);
      }
      victim.read(call, line);
    }
  }
}

TEST(BoardFuzzTest, MemoryThatBeginsWithinAnElementIsRefused) {
  board_samples::Victim victim;
  constexpr size_t kBytes = 100'000;
  for (const size_t offset : {0, 2, 4}) {
    const auto theirs = victim.honestLine(victim.allReduce(kBytes, offset));
    EXPECT_EQ(
        victim.read(victim.allReduce(kBytes), theirs),
        offset % sizeof(float) == 0);
  }
}

} // namespace
