#include "large_copy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace openreg {
namespace {

TEST(LargeCopy, CopiesEveryByteAndNoOtherAtAnyAlignment) {
  constexpr size_t kMost = 300;
  std::vector<char> src(kMost + 64);
  std::iota(src.begin(), src.end(), char{1});
  for (size_t from = 0; from < 20; from += 3) {
    for (size_t to = 0; to < 64; to += 7) {
      for (size_t bytes = 0; bytes <= kMost - 64; bytes += 13) {
        std::vector<char> dst(kMost + 64, char{0});
        copyPastCaches(dst.data() + to, src.data() + from, bytes);
        std::vector<char> expected(kMost + 64, char{0});
        std::copy_n(src.data() + from, bytes, expected.data() + to);
        ASSERT_EQ(dst, expected) << from << " " << to << " " << bytes;
      }
    }
  }
}

} // namespace
} // namespace openreg
