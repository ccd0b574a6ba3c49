// How threads share a transfer: what the API shows only by its speed.
#include "transfer_threads.h"

#include "config.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace openreg {
namespace {

using Part = std::function<void(size_t begin, size_t end)>;

constexpr uintptr_t kNoFault = TransferThreads::kNoFault;

/// Threads that live as long as their helpers: until the process ends.
TransferThreads& makeThreads(int count) {
  static auto& all = *new std::vector<std::unique_ptr<TransferThreads>>;
  return *all.emplace_back(new TransferThreads(count));
}

bool tryRun(
    TransferThreads& threads,
    size_t units,
    size_t bytesPerUnit,
    const Part& part,
    uintptr_t* fault = nullptr) {
  uintptr_t unused = 0;
  return threads.tryRun(
      units,
      bytesPerUnit,
      [](const void* context, size_t begin, size_t end) {
        (*static_cast<const Part*>(context))(begin, end);
      },
      &part,
      fault ? fault : &unused);
}

/// The threads that ran parts of one transfer, when each waits in its first part
/// until `count` have come.
size_t meet(TransferThreads& threads, size_t count) {
  std::mutex mutex;
  std::set<std::thread::id> present;
  const auto size = [&] {
    std::lock_guard lock(mutex);
    return present.size();
  };
  EXPECT_TRUE(tryRun(threads, 64 * kMiB, 1, [&](size_t, size_t) {
    {
      std::lock_guard lock(mutex);
      present.insert(std::this_thread::get_id());
    }
    while (size() < count) {
      std::this_thread::yield();
    }
  }));
  return size();
}

TEST(TransferThreadsTest, AsManyThreadsAsAreAllowedShareATransfer) {
  TransferThreads& threads = makeThreads(3);
  EXPECT_EQ(meet(threads, 3), 3u);
  EXPECT_EQ(meet(threads, 3), 3u) << "those that are there come again";
}

TEST(TransferThreadsTest, TheNumberOfThreadsMayChange) {
  TransferThreads& threads = makeThreads(4);
  EXPECT_EQ(meet(threads, 4), 4u);
  threads.setCount(2);
  EXPECT_EQ(meet(threads, 2), 2u) << "those beyond it stay away";
  threads.setCount(5);
  EXPECT_EQ(meet(threads, 5), 5u);
}

TEST(TransferThreadsTest, PartsCoverEveryUnitOnce) {
  TransferThreads& threads = makeThreads(3);
  const std::pair<size_t, size_t> transfers[] = {
      {2 * kMiB, 1},
      {9 * kMiB + 1, 1},
      {7, kMiB + 3},
      {2, 32 * kMiB},
      {999'999, 17},
  };
  for (const auto& [units, bytesPerUnit] : transfers) {
    std::vector<unsigned char> handled(units);
    uintptr_t fault = 0;
    const auto handle = [&](size_t begin, size_t end) {
      for (size_t unit = begin; unit < end; ++unit) {
        ++handled[unit];
      }
    };
    EXPECT_TRUE(tryRun(threads, units, bytesPerUnit, handle, &fault));
    EXPECT_EQ(std::count(handled.begin(), handled.end(), 1), ptrdiff_t(units));
    EXPECT_EQ(fault, kNoFault);
  }
}

TEST(TransferThreadsTest, FewBytesAndASingleThreadAreLeftToTheCaller) {
  const auto never = [](size_t, size_t) { FAIL(); };
  EXPECT_FALSE(tryRun(makeThreads(4), 2 * kMiB - 1, 1, never));
  EXPECT_FALSE(tryRun(makeThreads(1), 64 * kMiB, 1, never));
}

TEST(TransferThreadsTest, ASecondTransferIsLeftToItsCaller) {
  TransferThreads& threads = makeThreads(2);
  std::mutex mutex;
  std::vector<bool> accepted;
  EXPECT_TRUE(tryRun(threads, 64 * kMiB, 1, [&](size_t, size_t) {
    std::lock_guard lock(mutex);
    std::thread([&] {
      accepted.push_back(
          tryRun(threads, 64 * kMiB, 1, [](size_t, size_t) { FAIL(); }));
    }).join();
  }));
  EXPECT_FALSE(accepted.empty());
  EXPECT_EQ(std::count(accepted.begin(), accepted.end(), true), 0);
}

TEST(TransferThreadsTest, TheLowestFaultIsReportedAndTheThreadsGoOn) {
  TransferThreads& threads = makeThreads(3);
  constexpr size_t kBytes = 64 * kMiB;
  void* const memory =
      mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const closed = static_cast<volatile char*>(memory);
  for (int round = 0; round < 10; ++round) {
    uintptr_t fault = 0;
    EXPECT_TRUE(tryRun(
        threads,
        kBytes,
        1,
        [closed](size_t begin, size_t) { closed[begin] = 1; },
        &fault));
    EXPECT_EQ(fault, reinterpret_cast<uintptr_t>(memory));
  }
  EXPECT_EQ(meet(threads, 3), 3u);
  munmap(memory, kBytes);
}

} // namespace
} // namespace openreg
