#include "runtime/OpenRegRunningHere.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

namespace {

using c10::openreg::RunningHere;
using c10::openreg::runsElsewhere;

orStream_t stream(uintptr_t number) {
  return reinterpret_cast<orStream_t>(number);
}

/// What another thread sees.
bool isSeenElsewhere(orStream_t which) {
  bool seen = false;
  std::thread([&] { seen = runsElsewhere(which); }).join();
  return seen;
}

TEST(RunningHereTest, AKernelIsSeenByOtherThreadsForItsStream) {
  EXPECT_FALSE(isSeenElsewhere(stream(1)));
  {
    const RunningHere running(stream(1));
    EXPECT_TRUE(isSeenElsewhere(stream(1)));
    EXPECT_FALSE(isSeenElsewhere(stream(2)));
    EXPECT_FALSE(runsElsewhere(stream(1))); // it is one's own
  }
  EXPECT_FALSE(isSeenElsewhere(stream(1)));
}

TEST(RunningHereTest, AKernelInsideOfAKernelOfTheSameStreamChangesNothing) {
  const RunningHere outer(stream(1));
  { const RunningHere inner(stream(1)); }
  EXPECT_TRUE(isSeenElsewhere(stream(1)));
  EXPECT_FALSE(isSeenElsewhere(stream(2)));
}

TEST(RunningHereTest, AKernelInsideOfAKernelOfAnotherStreamIsSeenForAll) {
  const RunningHere outer(stream(1));
  {
    const RunningHere inner(stream(2));
    EXPECT_TRUE(isSeenElsewhere(stream(2)));
    EXPECT_TRUE(isSeenElsewhere(stream(3))); // nobody notes which
  }
  EXPECT_FALSE(isSeenElsewhere(stream(2)));
  EXPECT_TRUE(isSeenElsewhere(stream(1)));
}

TEST(RunningHereTest, WithMoreThreadsThanPlacesEveryStreamIsSeen) {
  constexpr int kThreads = 300; // there are 256 places
  std::latch begun(kThreads), looked(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const RunningHere running(stream(1));
      begun.count_down();
      looked.wait();
    });
  }
  begun.wait();
  EXPECT_TRUE(runsElsewhere(stream(1)));
  EXPECT_TRUE(runsElsewhere(stream(2)));
  looked.count_down();
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_FALSE(runsElsewhere(stream(1)));
  EXPECT_FALSE(runsElsewhere(stream(2)));
}

// What a thread wrote before its kernel is there for those who see the kernel.
TEST(RunningHereTest, WhoSeesAKernelSeesWhatCameBeforeIt) {
  for (int round = 0; round < 200; ++round) {
    int written = 0;
    std::atomic<bool> seen{false};
    std::thread kernel([&] {
      written = 1;
      const RunningHere running(stream(7));
      while (!seen) {
        std::this_thread::yield();
      }
    });
    while (!runsElsewhere(stream(7))) {
      std::this_thread::yield();
    }
    EXPECT_EQ(written, 1);
    seen = true;
    kernel.join();
  }
}

TEST(RunningHereTest, ThreadsComeAndGoWhileOthersLook) {
  std::atomic<bool> done{false};
  std::vector<std::thread> lookers;
  for (int i = 0; i < 2; ++i) {
    lookers.emplace_back([&done] {
      while (!done) {
        runsElsewhere(stream(1));
      }
    });
  }
  for (int round = 0; round < 50; ++round) {
    std::vector<std::thread> threads;
    for (uintptr_t i = 1; i <= 4; ++i) {
      threads.emplace_back([i] {
        for (int kernel = 0; kernel < 100; ++kernel) {
          const RunningHere outer(stream(i));
          const RunningHere inner(stream(kernel % 10 == 0 ? i + 1 : i));
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    EXPECT_FALSE(runsElsewhere(stream(1)));
  }
  done = true;
  for (auto& thread : lookers) {
    thread.join();
  }
}

} // namespace
