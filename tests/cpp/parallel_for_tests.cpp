// Loops of our own kernels on several threads.
#include "support.h"

#include "executor/ParallelFor.h"
#include "runtime/OpenRegThreads.h"

#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

namespace c10::openreg::testing {
namespace {

using at::native::openreg::parallelFor;
using Ranges = std::set<std::pair<int64_t, int64_t>>;

/// What the loop is cut into on a thread whose kernels have three threads.
Ranges rangesOf(int64_t count, int64_t grain) {
  Ranges ranges;
  std::thread([&] {
    useThreads(3);
    std::mutex lock;
    parallelFor(count, grain, [&](int64_t begin, int64_t end) {
      const std::lock_guard guard(lock);
      ranges.emplace(begin, end);
    });
  }).join();
  return ranges;
}

TEST(ParallelForTest, EachThreadGetsARange) {
  EXPECT_EQ(rangesOf(10, 1), (Ranges{{0, 4}, {4, 8}, {8, 10}}));
}

TEST(ParallelForTest, NoRangeIsShorterThanTheGrain) {
  EXPECT_EQ(rangesOf(10, 5), (Ranges{{0, 5}, {5, 10}}));
  EXPECT_EQ(rangesOf(10, 6), (Ranges{{0, 10}}));
  EXPECT_EQ(rangesOf(0, 1), Ranges{});
}

TEST(ParallelForTest, ALoopInALoopStaysInItsThread) {
  std::thread([] {
    useThreads(3);
    parallelFor(3, 1, [](int64_t, int64_t) {
      const auto outer = std::this_thread::get_id();
      parallelFor(9, 1, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(std::this_thread::get_id(), outer);
        EXPECT_EQ(end - begin, 9);
      });
    });
  }).join();
}

TEST(ParallelForTest, AnExceptionOfAThreadReachesTheCaller) {
  std::thread([] {
    useThreads(3);
    const auto failInTheLast = [](int64_t, int64_t end) {
      if (end == 9) {
        throw std::out_of_range("9");
      }
    };
    EXPECT_THROW(parallelFor(9, 1, failInTheLast), std::out_of_range);
  }).join();
}

} // namespace
} // namespace c10::openreg::testing
