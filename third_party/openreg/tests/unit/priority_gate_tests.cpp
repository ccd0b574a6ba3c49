// Which waiting task starts first.
#include "priority_gate.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace openreg {
namespace {

// Waits, without a time limit of its own, until so many tasks wait.
void awaitWaiting(PriorityGate& gate, unsigned count) {
  while (gate.waiting() != count) {
    std::this_thread::yield();
  }
}

TEST(PriorityGateTest, AsManyAsThereAreProcessorsEnterAtOnce) {
  PriorityGate gate(2, std::chrono::hours(1));
  gate.enter(0);
  gate.enter(-3);
  gate.leave();
  gate.leave();
}

TEST(PriorityGateTest, TheGreatestPriorityGoesFirst) {
  PriorityGate gate(1, std::chrono::hours(1));
  gate.enter(0);
  std::vector<int> started; // only one thread at a time is past the gate
  std::vector<std::thread> threads;
  unsigned waiting = 0;
  for (int priority : {0, -2, -1, -3}) {
    threads.emplace_back([&, priority] {
      gate.enter(priority);
      started.push_back(priority);
      gate.leave();
    });
    awaitWaiting(gate, ++waiting);
  }
  gate.leave();
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(started, (std::vector{-3, -2, -1, 0}));
}

TEST(PriorityGateTest, AKernelThatWaitsForALaterTaskDoesNotHoldItUp) {
  PriorityGate gate(1, std::chrono::milliseconds(1));
  gate.enter(-3);
  gate.enter(0); // would hang if the first had to leave before
  gate.leave();
  gate.leave();
}

} // namespace
} // namespace openreg
