// What kernels take, learnt from those that ran.
#include "executor/KernelPace.h"

#include <gtest/gtest.h>

namespace at::native::openreg {
namespace {

TEST(KernelPaceTest, AnEstimateIsTakenAsItIsUntilAKernelRan) {
  EXPECT_EQ(KernelPace().expect(7), 7);
}

TEST(KernelPaceTest, KernelsThatAllTakeLongerAreExpectedToDoSo) {
  KernelPace pace;
  pace.note(10, 810);
  EXPECT_DOUBLE_EQ(pace.expect(10), 110);
  for (int i = 0; i < 100; ++i) {
    pace.note(10, 810);
  }
  EXPECT_NEAR(pace.expect(20), 1620, 1);
}

TEST(KernelPaceTest, TheShortestTimeCountsAtOnce) {
  KernelPace pace;
  pace.note(10, 50'000); // interrupted
  pace.note(10, 5);
  EXPECT_DOUBLE_EQ(pace.expect(10), 5);
}

} // namespace
} // namespace at::native::openreg
