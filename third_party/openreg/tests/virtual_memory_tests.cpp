// Reserved addresses, and memory that is mapped into them.
#include "ipc_memory.h"

namespace openreg::testing {
namespace {

constexpr size_t kUnit = OPENREG_MEM_GRANULARITY;

size_t freeBytes() {
  size_t free = 0;
  EXPECT_EQ(orMemGetInfo(&free, nullptr), orSuccess);
  return free;
}

/// A range of addresses, and what is mapped into it.
class Range {
 public:
  explicit Range(size_t units) : bytes_(units * kUnit) {
    void* pointer = nullptr;
    EXPECT_EQ(orMemAddressReserve(&pointer, bytes_), orSuccess) << lastDetail();
    start_ = static_cast<char*>(pointer);
  }
  ~Range() {
    for (size_t unit = 0; unit < bytes_ / kUnit; ++unit) {
      orMemUnmap(at(unit), kUnit); // fails if nothing is there
    }
    EXPECT_EQ(orMemAddressFree(start_, bytes_), orSuccess) << lastDetail();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  char* at(size_t unit) const {
    return start_ + unit * kUnit;
  }
  /// Maps a unit whose handle nobody needs.
  void map(size_t unit, orMemAccess access = orMemAccessReadWrite) {
    orMemHandle_t memory = nullptr;
    ASSERT_EQ(orMemCreate(&memory, kUnit), orSuccess) << lastDetail();
    ASSERT_EQ(orMemMap(at(unit), kUnit, memory), orSuccess) << lastDetail();
    ASSERT_EQ(orMemRelease(memory), orSuccess);
    ASSERT_EQ(orMemSetAccess(at(unit), kUnit, access), orSuccess);
  }

 private:
  size_t bytes_;
  char* start_ = nullptr;
};

orMemHandle_t created(size_t units = 1) {
  orMemHandle_t memory = nullptr;
  EXPECT_EQ(orMemCreate(&memory, units * kUnit), orSuccess) << lastDetail();
  return memory;
}

bool isUsable(const void* pointer) {
  orPointerAttributes attributes;
  return orPointerGetAttributes(&attributes, pointer) == orSuccess;
}

TEST(VirtualMemoryTest, MemoryIsWrittenAndReadWhereItIsMapped) {
  Range range(4);
  range.map(1);
  const int value = 7;
  int read = 0;
  char* const place = range.at(1) + 100;
  ASSERT_EQ(
      orMemcpy(place, &value, sizeof value, orMemcpyHostToDevice), orSuccess);
  ASSERT_EQ(
      orMemcpy(&read, place, sizeof read, orMemcpyDeviceToHost), orSuccess);
  EXPECT_EQ(read, 7);
  auto* const kernel = static_cast<int*>(orKernelPointer(place));
  ASSERT_EQ(
      orLaunchKernel(defaultStream(), [kernel] { *kernel += 1; }), orSuccess);
  ASSERT_EQ(
      orMemcpy(&read, place, sizeof read, orMemcpyDeviceToHost), orSuccess);
  EXPECT_EQ(read, 8);
}

TEST(VirtualMemoryTest, PiecesThatTouchAreOneAllocation) {
  Range range(4);
  range.map(0);
  range.map(1);
  range.map(3);
  void* base = nullptr;
  size_t size = 0;
  ASSERT_EQ(orMemGetAddressRange(&base, &size, range.at(1)), orSuccess);
  EXPECT_EQ(base, range.at(0));
  EXPECT_EQ(size, 2 * kUnit);
  EXPECT_EQ(orMemset(range.at(0), 1, 2 * kUnit), orSuccess);
  EXPECT_NE(orMemset(range.at(0), 1, 2 * kUnit + 1), orSuccess);
  range.map(2);
  EXPECT_EQ(orMemset(range.at(0), 1, 4 * kUnit), orSuccess);
}

TEST(VirtualMemoryTest, AddressesWithoutAccessibleMemoryCannotBeUsed) {
  Range range(2);
  EXPECT_FALSE(isUsable(range.at(0)));
  range.map(0, orMemAccessNone);
  EXPECT_FALSE(isUsable(range.at(0)));
  EXPECT_EQ(orMemoryUnprotect(range.at(0)), orErrorInvalidValue);
  ASSERT_EQ(
      orMemSetAccess(range.at(0), kUnit, orMemAccessReadWrite), orSuccess);
  EXPECT_TRUE(isUsable(range.at(0)));
  EXPECT_FALSE(isUsable(range.at(1)));
  ASSERT_EQ(orMemSetAccess(range.at(0), kUnit, orMemAccessNone), orSuccess);
  EXPECT_FALSE(isUsable(range.at(0)));
}

TEST(VirtualMemoryTest, MemoryCountsUntilItIsReleasedAndUnmapped) {
  const size_t before = freeBytes();
  Range range(2);
  EXPECT_EQ(freeBytes(), before);
  const orMemHandle_t memory = created();
  EXPECT_EQ(freeBytes(), before - kUnit);
  ASSERT_EQ(orMemMap(range.at(0), kUnit, memory), orSuccess);
  ASSERT_EQ(orMemRelease(memory), orSuccess);
  EXPECT_EQ(freeBytes(), before - kUnit);
  ASSERT_EQ(orMemUnmap(range.at(0), kUnit), orSuccess);
  EXPECT_EQ(freeBytes(), before);

  const orMemHandle_t other = created();
  ASSERT_EQ(orMemMap(range.at(0), kUnit, other), orSuccess);
  ASSERT_EQ(orMemUnmap(range.at(0), kUnit), orSuccess);
  EXPECT_EQ(freeBytes(), before - kUnit);
  ASSERT_EQ(orMemRelease(other), orSuccess);
  EXPECT_EQ(freeBytes(), before);
}

TEST(VirtualMemoryTest, WhatWasUnmappedIsGoneAndReadsAsZero) {
  Range range(1);
  range.map(0);
  ASSERT_EQ(orMemset(range.at(0), 1, kUnit), orSuccess);
  ASSERT_EQ(orMemUnmap(range.at(0), kUnit), orSuccess);
  EXPECT_FALSE(isUsable(range.at(0)));
  range.map(0);
  char read = 1;
  ASSERT_EQ(orMemcpy(&read, range.at(0), 1, orMemcpyDeviceToHost), orSuccess);
  EXPECT_EQ(read, 0);
}

TEST(VirtualMemoryTest, UnmappingWaitsForTheDevice) {
  Range range(1);
  range.map(0);
  Stream stream;
  Gate gate(stream);
  EXPECT_TRUE(waitsForGate(
      gate, [&] { EXPECT_EQ(orMemUnmap(range.at(0), kUnit), orSuccess); }));
}

TEST(VirtualMemoryTest, TheHostOpensOnePiece) {
  Range range(2);
  range.map(0);
  range.map(1);
  ASSERT_EQ(orMemoryUnprotect(range.at(0) + 5), orSuccess);
  range.at(0)[0] = 3;
  ASSERT_EQ(orMemoryProtect(range.at(0)), orSuccess);
  EXPECT_EQ(orMemoryProtect(range.at(0)), orErrorInvalidValue);
  ASSERT_EQ(orMemoryUnprotect(range.at(1)), orSuccess); // ends with the piece
}

TEST(VirtualMemoryTest, AnotherProcessOpensWhatIsMapped) {
  auto body = [] {
    const Peer peer([](Channel& channel) {
      int* const memory = opened(channel.receive<orIpcMemHandle_t>());
      EXPECT_EQ(read(memory), 5);
      write(memory + kUnit / sizeof(int), 6);
      channel.signal();
    });
    void* start = nullptr;
    CHILD_REQUIRE(orMemAddressReserve(&start, 4 * kUnit) == orSuccess);
    for (int unit = 0; unit < 2; ++unit) {
      char* const at = static_cast<char*>(start) + unit * kUnit;
      orMemHandle_t memory = nullptr;
      CHILD_REQUIRE(orMemCreate(&memory, kUnit) == orSuccess);
      CHILD_REQUIRE(orMemMap(at, kUnit, memory) == orSuccess);
      CHILD_REQUIRE(
          orMemSetAccess(at, kUnit, orMemAccessReadWrite) == orSuccess);
    }
    auto* const numbers = static_cast<int*>(start);
    write(numbers, 5);
    Channel channel = peer.channel();
    channel.send(handleOf(start));
    channel.await();
    EXPECT_EQ(read(numbers + kUnit / sizeof(int)), 6);
    orIpcMemHandle_t handle;
    EXPECT_EQ(
        orIpcGetMemHandle(&handle, numbers + kUnit / sizeof(int)),
        orErrorInvalidValue); // not the start
    EXPECT_TRUE(peer.join());
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

// --- what is refused -----------------------------------------------------------

TEST(MemAddressReserveTest, BadSizesAndNoPlaceForTheAnswerFail) {
  int any = 0;
  for (size_t size : {size_t{0}, size_t{1}, kUnit + 1, SIZE_MAX}) {
    void* pointer = &any;
    EXPECT_EQ(orMemAddressReserve(&pointer, size), orErrorInvalidValue);
    EXPECT_TRUE(detailHas(std::to_string(kUnit)));
    EXPECT_EQ(pointer, nullptr);
  }
  EXPECT_EQ(orMemAddressReserve(nullptr, kUnit), orErrorInvalidValue);
}

TEST(MemAddressReserveTest, MoreThanTheAddressesOfTheDeviceFails) {
  void* pointer = nullptr;
  const size_t size = SIZE_MAX / kUnit * kUnit;
  EXPECT_EQ(orMemAddressReserve(&pointer, size), orErrorMemoryAllocation);
  EXPECT_TRUE(detailHas("OPENREG_DEVICE_MEMORY"));
}

TEST(MemAddressReserveTest, RangesLeaveAddressesForOtherMemory) {
  size_t total = 0;
  ASSERT_EQ(orMemGetInfo(nullptr, &total), orSuccess);
  const size_t size = (total / kUnit + 1) * kUnit; // more than there is memory
  std::vector<void*> ranges;
  void* range = nullptr;
  while (orMemAddressReserve(&range, size) == orSuccess) {
    ranges.push_back(range);
  }
  EXPECT_GE(ranges.size(), 2u);
  DeviceArray<char> all(freeBytes());
  EXPECT_NE(all.data(), nullptr);
  for (void* made : ranges) {
    EXPECT_EQ(orMemAddressFree(made, size), orSuccess);
  }
}

TEST(MemAddressReserveTest, ABrokenDeviceGivesNothing) {
  const BrokenDevice broken;
  void* pointer = nullptr;
  orMemHandle_t memory = nullptr;
  EXPECT_EQ(orMemAddressReserve(&pointer, kUnit), orErrorAssert);
  EXPECT_EQ(orMemCreate(&memory, kUnit), orErrorAssert);
}

TEST(MemAddressFreeTest, OnlyAWholeEmptyRangeIsFreed) {
  int any = 0;
  EXPECT_EQ(orMemAddressFree(&any, kUnit), orErrorInvalidValue);
  Range range(2);
  EXPECT_EQ(orMemAddressFree(range.at(1), kUnit), orErrorInvalidValue);
  EXPECT_EQ(orMemAddressFree(range.at(0), kUnit), orErrorInvalidValue);
  EXPECT_TRUE(detailHas(std::to_string(2 * kUnit)));
  range.map(1);
  EXPECT_EQ(orMemAddressFree(range.at(0), 2 * kUnit), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("orMemUnmap"));
  EXPECT_EQ(orFree(range.at(0)), orErrorInvalidValue);
  DeviceArray<char> array(1);
  EXPECT_EQ(orMemAddressFree(array.data(), kUnit), orErrorInvalidValue);
}

TEST(MemCreateTest, BadSizesAndMoreThanTheDeviceHasFail) {
  int any = 0;
  for (size_t size : {size_t{0}, kUnit - 1, kUnit + 1}) {
    auto memory = reinterpret_cast<orMemHandle_t>(&any);
    EXPECT_EQ(orMemCreate(&memory, size), orErrorInvalidValue);
    EXPECT_EQ(memory, nullptr);
  }
  EXPECT_EQ(orMemCreate(nullptr, kUnit), orErrorInvalidValue);
  orMemHandle_t memory = nullptr;
  const size_t most = SIZE_MAX / kUnit * kUnit;
  EXPECT_EQ(orMemCreate(&memory, most), orErrorMemoryAllocation);
  EXPECT_TRUE(detailHas("OPENREG_DEVICE_MEMORY"));
}

TEST(MemCreateTest, AFaultPlanAppliesToIt) {
  ASSERT_EQ(orFaultPlan("oom@alloc:2"), orSuccess);
  const orMemHandle_t first = created();
  orMemHandle_t second = nullptr;
  EXPECT_EQ(orMemCreate(&second, kUnit), orErrorMemoryAllocation);
  ASSERT_EQ(orFaultClear(), orSuccess);
  EXPECT_EQ(orMemRelease(first), orSuccess);
}

TEST(MemMapTest, MemoryIsMappedOnce) {
  Range range(2);
  const orMemHandle_t memory = created();
  ASSERT_EQ(orMemMap(range.at(0), kUnit, memory), orSuccess);
  EXPECT_EQ(orMemMap(range.at(1), kUnit, memory), orErrorNotPermitted);
  ASSERT_EQ(orMemUnmap(range.at(0), kUnit), orSuccess);
  EXPECT_EQ(orMemMap(range.at(0), kUnit, memory), orErrorNotPermitted);
  EXPECT_EQ(orMemRelease(memory), orSuccess);
}

TEST(MemMapTest, OnlyFreeAddressesOfARangeAreTaken) {
  Range range(3);
  range.map(1);
  DeviceArray<char> array(2 * kUnit);
  const orMemHandle_t memory = created(2);
  int any = 0;
  for (void* place :
       {static_cast<void*>(range.at(0)), // overlaps
        static_cast<void*>(range.at(1)),
        static_cast<void*>(range.at(2)), // ends behind the range
        static_cast<void*>(range.at(0) + 512),
        static_cast<void*>(array.data()),
        static_cast<void*>(&any)}) {
    EXPECT_EQ(orMemMap(place, 2 * kUnit, memory), orErrorInvalidValue);
  }
  EXPECT_EQ(orMemMap(range.at(0), kUnit, memory), orErrorInvalidValue);
  EXPECT_TRUE(detailHas(std::to_string(2 * kUnit)));
  EXPECT_EQ(orMemRelease(memory), orSuccess);
  EXPECT_EQ(orMemMap(range.at(0), 2 * kUnit, memory), orErrorInvalidHandle);
  EXPECT_EQ(orMemMap(range.at(0), kUnit, nullptr), orErrorInvalidHandle);
}

TEST(MemMapTest, AnotherDevicesMemoryIsRefused) {
  Range range(1);
  ASSERT_EQ(orSetDevice(1), orSuccess);
  const orMemHandle_t memory = created();
  ASSERT_EQ(orSetDevice(0), orSuccess);
  EXPECT_EQ(orMemMap(range.at(0), kUnit, memory), orErrorInvalidValue);
  EXPECT_EQ(orMemRelease(memory), orSuccess);
}

TEST(MemSetAccessTest, OnlyWholePiecesAndKnownAccess) {
  Range range(2);
  range.map(0);
  const auto bad = static_cast<orMemAccess>(1);
  EXPECT_EQ(orMemSetAccess(range.at(0), kUnit, bad), orErrorInvalidValue);
  int any = 0;
  for (const auto& [place, size] :
       {std::pair<void*, size_t>(range.at(0), 2 * kUnit),
        std::pair<void*, size_t>(range.at(0), kUnit / 2),
        std::pair<void*, size_t>(range.at(0), 0),
        std::pair<void*, size_t>(range.at(1), kUnit),
        std::pair<void*, size_t>(&any, kUnit)}) {
    EXPECT_EQ(
        orMemSetAccess(place, size, orMemAccessNone), orErrorInvalidValue);
    EXPECT_EQ(orMemUnmap(place, size), orErrorInvalidValue);
  }
  EXPECT_TRUE(isUsable(range.at(0)));
}

TEST(MemUnmapTest, AKernelMayNotWaitForIt) {
  Range range(1);
  range.map(0);
  orError_t status = orSuccess;
  ASSERT_EQ(
      orLaunchKernel(
          defaultStream(), [&] { status = orMemUnmap(range.at(0), kUnit); }),
      orSuccess);
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(status, orErrorNotPermitted);
}

TEST(MemUnmapTest, ABrokenDeviceTakesNothingBack) {
  Range range(1);
  range.map(0);
  {
    const BrokenDevice broken;
    EXPECT_EQ(orMemUnmap(range.at(0), kUnit), orErrorAssert);
  }
  EXPECT_EQ(orMemUnmap(range.at(0), kUnit), orSuccess);
}

TEST(MemReleaseTest, AHandleIsReleasedOnce) {
  const orMemHandle_t memory = created();
  EXPECT_EQ(orMemRelease(memory), orSuccess);
  EXPECT_EQ(orMemRelease(memory), orErrorInvalidHandle);
  EXPECT_EQ(orMemRelease(nullptr), orErrorInvalidHandle);
  int any = 0;
  EXPECT_EQ(
      orMemRelease(reinterpret_cast<orMemHandle_t>(&any)),
      orErrorInvalidHandle);
}

TEST(VirtualMemoryTest, ThreadsMapAndUnmapBesideEachOther) {
  constexpr size_t kThreads = 4;
  const size_t before = freeBytes();
  Range range(kThreads);
  std::vector<std::thread> threads;
  for (size_t place = 0; place < kThreads; ++place) {
    threads.emplace_back([&, place] {
      for (int round = 0; round < 50; ++round) {
        range.map(place);
        EXPECT_EQ(orMemset(range.at(place), round, 64), orSuccess);
        EXPECT_EQ(orMemUnmap(range.at(place), kUnit), orSuccess);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(freeBytes(), before);
}

} // namespace
} // namespace openreg::testing
