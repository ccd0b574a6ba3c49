// The front of the allocator over the real device, from many threads.
#include "exception.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceMemory.h"
#include "runtime/OpenRegLostMemory.h"
#include "runtime/OpenRegRunningHere.h"
#include "runtime/OpenRegUncachedMemory.h"

#include "../../../third_party/openreg/tests/support.h"

#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <utility>

namespace openreg::testing {
namespace {

using namespace c10::openreg;

constexpr size_t kMiB = 1 << 20;
const PoolContext kNone;

DeviceMemory& memoryOf(int device) {
  DeviceMemory* memory = DeviceMemory::find(device);
  return memory ? *memory : DeviceMemory::make(device, PoolConfig{});
}

/// Runs `work(i)` in so many threads at a time.
void inThreads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back(work, i);
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

class DeviceMemoryTest : public ::testing::Test {
 protected:
  void TearDown() override {
    enableCaching(true);
    for (const int device : {0, 1}) {
      memoryOf(device).setFraction(1);
      memoryOf(device).pool().emptyCache();
      const auto [free, total] = DeviceMemory::infoOf(device);
      EXPECT_EQ(free, total);
    }
  }
};

TEST_F(DeviceMemoryTest, AFaultPlanIsAskedOncePerAllocation) {
  for (const bool caching : {true, false}) {
    enableCaching(caching);
    DeviceMemory& memory = memoryOf(0);
    const int64_t failures = memory.pool().stats().outOfMemory;
    ASSERT_EQ(orFaultPlan("oom@alloc:2:device=0"), orSuccess);
    orStream_t stream = defaultStream();
    void* first = memory.allocate(kMiB, stream, kNone); // and maps a segment
    EXPECT_NE(first, nullptr);
    EXPECT_EQ(memory.tryAllocate(kMiB, stream, kNone), nullptr); // not asked
    EXPECT_EQ(memory.allocate(kMiB, stream, kNone), nullptr);
    EXPECT_EQ(memory.pool().stats().outOfMemory, failures + 1);
    void* third = memory.allocate(kMiB, stream, kNone);
    EXPECT_NE(third, nullptr);
    unsigned long long asked = 0;
    EXPECT_EQ(orFaultCount("alloc", &asked), orSuccess);
    EXPECT_EQ(asked, 3u);
    EXPECT_EQ(orFaultClear(), orSuccess);
    EXPECT_TRUE(memory.free(first, kNone));
    EXPECT_TRUE(memory.free(third, kNone));
  }
}

TEST_F(DeviceMemoryTest, ThreadsThatMakeItGetTheSame) {
  std::mutex mutex;
  std::vector<DeviceMemory*> made;
  inThreads(8, [&](int i) {
    DeviceMemory& memory = memoryOf(i % 2);
    const std::lock_guard lock(mutex);
    made.push_back(&memory);
  });
  for (DeviceMemory* memory : made) {
    EXPECT_TRUE(
        memory == DeviceMemory::find(0) || memory == DeviceMemory::find(1));
  }
  EXPECT_EQ(DeviceMemory::find(-1), nullptr);
  EXPECT_EQ(DeviceMemory::find(kMaxDevices), nullptr);
}

/// Writes a number to each byte of a block in a stream, then checks that all of them
/// are still there when the stream comes to it.
void writeAndCheck(void* block, size_t bytes, orStream_t stream, char number) {
  auto* data = static_cast<char*>(kernelAddress(block));
  ASSERT_EQ(
      orLaunchKernel(stream, [=] { std::memset(data, number, bytes); }),
      orSuccess);
  ASSERT_EQ(
      orLaunchKernel(
          stream,
          [=] {
            EXPECT_EQ(std::string(data, bytes), std::string(bytes, number));
          }),
      orSuccess);
}

// A block may be handed out again while its kernels are queued: for the same stream.
TEST_F(DeviceMemoryTest, BlocksOfAStreamAreReusedInItsOrder) {
  inThreads(4, [](int i) {
    DeviceMemory& memory = memoryOf(0);
    const Stream stream;
    std::mt19937 random(static_cast<unsigned>(i));
    for (int round = 0; round < 200; ++round) {
      const size_t bytes = 1 + random() % 5000;
      void* block = memory.allocate(bytes, stream, kNone);
      ASSERT_NE(block, nullptr);
      writeAndCheck(block, bytes, stream, static_cast<char>(round));
      ASSERT_TRUE(memory.free(block, kNone));
    }
    ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  });
}

// What another stream used too comes back when that stream has run.
TEST_F(DeviceMemoryTest, BlocksThatTwoStreamsUseAreKeptForBoth) {
  inThreads(4, [](int i) {
    DeviceMemory& memory = memoryOf(0);
    const Stream own, other;
    for (int round = 0; round < 100; ++round) {
      constexpr size_t kBytes = 700;
      void* block = memory.allocate(kBytes, own, kNone);
      ASSERT_NE(block, nullptr);
      const char number = static_cast<char>(i * 50 + round);
      writeAndCheck(block, kBytes, own, number);
      const Event written;
      ASSERT_EQ(orEventRecord(written, own), orSuccess);
      ASSERT_EQ(orStreamWaitEvent(other, written, 0), orSuccess);
      memory.pool().recordStream(block, other);
      const auto* data = static_cast<char*>(kernelAddress(block));
      ASSERT_EQ(
          orLaunchKernel(other, [=] { EXPECT_EQ(data[kBytes - 1], number); }),
          orSuccess);
      ASSERT_TRUE(memory.free(block, kNone));
    }
    ASSERT_EQ(orStreamSynchronize(own), orSuccess);
    ASSERT_EQ(orStreamSynchronize(other), orSuccess);
  });
}

// A thread runs a kernel itself that allocates in the stream, while another frees
// blocks that work behind the kernel still reads.
TEST_F(DeviceMemoryTest, AKernelOnItsOwnThreadGetsNoBlockThatIsStillRead) {
  DeviceMemory& memory = memoryOf(0);
  const Stream stream;
  for (int round = 0; round < 100; ++round) {
    void* block = memory.allocate(512, stream, kNone);
    std::promise<void> started, freed;
    std::thread runner([&] {
      const RunningHere running(stream);
      const orLaunchConfig config{"kernel", orLaunchHere};
      EXPECT_EQ(
          orLaunchKernelEx(
              &config,
              stream,
              [&] {
                started.set_value();
                freed.get_future().wait();
                // Used at once, before what is queued behind this kernel.
                void* mine = memory.tryAllocate(512, stream, kNone);
                EXPECT_NE(mine, block);
                std::memset(kernelAddress(mine), 1, 512);
                EXPECT_TRUE(memory.free(mine, kNone));
              }),
          orSuccess);
    });
    started.get_future().wait();
    writeAndCheck(block, 512, stream, 2);
    EXPECT_TRUE(memory.free(block, kNone));
    freed.set_value();
    runner.join();
    EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
  }
}

TEST_F(DeviceMemoryTest, MemoryIsFreedTheWayItCame) {
  inThreads(4, [](int i) {
    DeviceMemory& memory = memoryOf(i % 2);
    const DeviceScope scope(i % 2);
    const Stream stream;
    for (int round = 0; round < 50; ++round) {
      enableCaching((i + round) % 3 != 0);
      void* block = memory.allocate(1000, stream, kNone);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(deviceOfPointer(block), i % 2);
      enableCaching((i + round) % 2 != 0);
      EXPECT_TRUE(memory.free(block, kNone));
      EXPECT_FALSE(memory.free(block, kNone));
    }
  });
  EXPECT_TRUE(uncachedOn(0).empty());
  EXPECT_TRUE(uncachedOn(1).empty());
}

TEST_F(DeviceMemoryTest, WhatIsAllocatedIsLostUntilItIsOverwrittenOrFreed) {
  DeviceMemory& memory = memoryOf(0);
  const orStream_t stream = defaultStream();
  void* kept = memory.allocate(100, stream, kNone);
  void* freed = memory.allocate(100, stream, kNone);
  enableCaching(false);
  void* uncached = memory.allocate(100, stream, kNone);
  enableCaching(true);
  memory.lose();
  void* later = memory.allocate(100, stream, kNone);
  for (void* lost : {kept, freed, uncached}) {
    EXPECT_EQ(statusOf([&] { checkNotLost(lost); }), orErrorDeviceLost);
  }
  EXPECT_EQ(statusOf([&] { checkNotLost(later); }), orSuccess);
  forgetLost(kept); // it is overwritten whole
  EXPECT_EQ(statusOf([&] { checkNotLost(kept); }), orSuccess);
  for (void* block : {kept, freed, uncached, later}) {
    EXPECT_TRUE(memory.free(block, kNone));
  }
  void* again = memory.allocate(100, stream, kNone);
  EXPECT_EQ(statusOf([&] { checkNotLost(again); }), orSuccess);
  EXPECT_TRUE(memory.free(again, kNone));
}

TEST_F(DeviceMemoryTest, ThreadsAskForLostMemoryWhileItGetsLost) {
  inThreads(4, [](int i) {
    DeviceMemory& memory = memoryOf(i % 2);
    const DeviceScope scope(i % 2);
    const orStream_t stream = defaultStream(i % 2);
    for (int round = 0; round < 100; ++round) {
      void* block = memory.allocate(512, stream, kNone);
      if (round % 10 == 0) {
        memory.lose();
      }
      statusOf([&] { checkNotLost(block); });
      forgetLost(block);
      EXPECT_TRUE(memory.free(block, kNone));
    }
  });
}

TEST_F(DeviceMemoryTest, AFractionBoundsWhatThreadsGet) {
  DeviceMemory& memory = memoryOf(1);
  const auto total = static_cast<double>(DeviceMemory::infoOf(1).second);
  memory.setFraction(double(40 * kMiB) / total);
  std::mutex mutex;
  std::vector<void*> blocks;
  inThreads(4, [&](int) {
    const DeviceScope scope(1);
    for (int round = 0; round < 5; ++round) {
      if (void* block = memory.allocate(10 * kMiB, defaultStream(1), kNone)) {
        const std::lock_guard lock(mutex);
        blocks.push_back(block);
      }
    }
  });
  EXPECT_EQ(blocks.size(), 4u);
  for (void* block : blocks) {
    EXPECT_TRUE(memory.free(block, kNone));
  }
}

TEST_F(DeviceMemoryTest, PointersTellWhatTheyPointInto) {
  DeviceMemory& memory = memoryOf(0);
  void* block = memory.allocate(1000, defaultStream(), kNone);
  EXPECT_TRUE(isDevicePointer(static_cast<char*>(block) + 999));
  EXPECT_FALSE(isPinned(block));
  EXPECT_EQ(deviceAddress(kernelAddress(block)), block);
  EXPECT_EQ(kernelAddress(nullptr), nullptr);
  const PinnedArray<char> pinned(10, 0);
  EXPECT_TRUE(isPinned(pinned.data()));
  EXPECT_FALSE(isDevicePointer(pinned.data()));
  int here = 0;
  EXPECT_FALSE(isPinned(&here));
  EXPECT_EQ(statusOf([&] { deviceOfPointer(&here); }), orErrorInvalidValue);
  EXPECT_TRUE(memory.free(block, kNone));
  memory.pool().emptyCache();
  EXPECT_FALSE(isDevicePointer(block));
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
}

} // namespace
} // namespace openreg::testing
