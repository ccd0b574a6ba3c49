// Device memory behind c10's allocator interface.
#include "support.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceAllocator.h"

#include <c10/core/Allocator.h>

#include <set>

namespace c10::openreg::testing {
namespace {

constexpr size_t kMiB = 1 << 20;

class AllocatorTest : public DeviceTest {
 protected:
  void SetUp() override {
    allocator.emptyCache();
  }

  int64_t allocated(DeviceIndex index) {
    return allocator.getDeviceStats(index).allocated_bytes[0].current;
  }
  int64_t reserved(DeviceIndex index) {
    return allocator.getDeviceStats(index).reserved_bytes[0].current;
  }

  OpenRegDeviceAllocator& allocator = getOpenRegDeviceAllocator();
};

orPointerAttributes attributesOf(const void* pointer) {
  orPointerAttributes attributes;
  EXPECT_EQ(orPointerGetAttributes(&attributes, pointer), orSuccess);
  return attributes;
}

// Bytes of device memory, read and written as a kernel does.
char* bytes(const void* pointer) {
  return static_cast<char*>(kernelAddress(pointer));
}

// --- c10::Allocator -----------------------------------------------------------

TEST_F(AllocatorTest, PyTorchFindsTheAllocatorByItsDeviceType) {
  EXPECT_EQ(GetAllocator(DeviceType::PrivateUse1), &allocator);
  EXPECT_EQ(at::getDeviceAllocator(DeviceType::PrivateUse1), &allocator);
}

TEST_F(AllocatorTest, MemoryIsOnTheCurrentDevice) {
  for (const DeviceIndex index : {0, 1}) {
    set_device(index);
    const DataPtr data = allocator.allocate(1000);
    EXPECT_EQ(data.device(), device(index));
    EXPECT_EQ(attributesOf(data.get()).type, orMemoryTypeDevice);
    EXPECT_EQ(attributesOf(data.get()).device, index);
  }
}

TEST_F(AllocatorTest, MemoryCountsUntilTheDataPtrIsGone) {
  const int64_t before = allocated(0);
  DataPtr data = allocator.allocate(1000);
  EXPECT_EQ(allocated(0), before + 1024);
  DataPtr moved = std::move(data);
  EXPECT_EQ(allocated(0), before + 1024);
  moved.clear();
  EXPECT_EQ(allocated(0), before);
}

TEST_F(AllocatorTest, TheContextIsThePointer) {
  const DataPtr data = allocator.allocate(1000);
  EXPECT_EQ(data.get_context(), data.get());
  EXPECT_TRUE(allocator.is_simple_data_ptr(data));
}

TEST_F(AllocatorTest, ZeroBytesAreNoMemoryOfTheDevice) {
  set_device(1);
  const int64_t before = allocated(1);
  DataPtr data = allocator.allocate(0);
  EXPECT_EQ(data.get(), nullptr);
  EXPECT_EQ(data.device(), device(1));
  data.clear();
  EXPECT_EQ(allocator.raw_allocate(0), nullptr);
  allocator.raw_deallocate(nullptr);
  EXPECT_EQ(allocated(1), before);
}

TEST_F(AllocatorTest, RawPointersFindTheirDevice) {
  set_device(1);
  const int64_t before = allocated(1);
  void* pointer = allocator.raw_allocate(1000);
  EXPECT_EQ(attributesOf(pointer).device, 1);
  set_device(0);
  allocator.raw_deallocate(pointer);
  EXPECT_EQ(allocated(1), before);
}

TEST_F(AllocatorTest, RawDeallocateRefusesMemoryOfTheHost) {
  int here = 0;
  EXPECT_TRUE(
      has(messageOf([&] { allocator.raw_deallocate(&here); }),
          "is not memory of an openreg device"));
}

TEST_F(AllocatorTest, FreeingTwiceWarns) {
  void* pointer = allocator.raw_allocate(1000);
  allocator.raw_deallocate(pointer);
  Warnings warnings;
  allocator.raw_deallocate(pointer);
  ASSERT_EQ(warnings.messages.size(), 1u);
  EXPECT_TRUE(has(warnings.messages[0], "has no allocation at"));
}

TEST_F(AllocatorTest, ADeleterDoesNotLetAnErrorOfAWarningOut) {
  DataPtr data = allocator.allocate(1000);
  allocator.raw_deallocate(data.get());
  const WarningsThrow handler;
  data.clear(); // frees twice; would end the process
}

TEST_F(AllocatorTest, CopyDataCopiesInStreamOrder) {
  const OpenRegStream stream = getStreamFromPool(0, 0);
  setCurrentOpenRegStream(stream);
  const DataPtr from = allocator.allocate(512), to = allocator.allocate(512);
  bytes(to.get())[511] = 'b';
  {
    Gate gate(stream);
    allocator.copy_data(to.get(), from.get(), 512);
    bytes(from.get())[511] = 'a'; // before the copy, which the gate holds
    EXPECT_EQ(bytes(to.get())[511], 'b');
  }
  stream.synchronize();
  EXPECT_EQ(bytes(to.get())[511], 'a');
}

TEST_F(AllocatorTest, CopyDataOfNothingDoesNothing) {
  allocator.copy_data(nullptr, nullptr, 0);
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
}

TEST_F(AllocatorTest, CopyDataUsesTheDeviceOfTheMemory) {
  set_device(1);
  const DataPtr from = allocator.allocate(512);
  bytes(from.get())[0] = 'x';
  set_device(0);
  const OpenRegStream stream = getDefaultOpenRegStream(1);
  DataPtr copy = allocator.allocate(512, stream);
  allocator.copy_data(copy.get(), from.get(), 512);
  stream.synchronize();
  EXPECT_EQ(bytes(copy.get())[0], 'x');
}

TEST_F(AllocatorTest, CloneMakesACopy) {
  const DataPtr from = allocator.allocate(512);
  bytes(from.get())[7] = 'x';
  const DataPtr copy = allocator.clone(from.get(), 512);
  device_synchronize();
  EXPECT_NE(copy.get(), from.get());
  EXPECT_EQ(bytes(copy.get())[7], 'x');
}

// --- streams ------------------------------------------------------------------

TEST_F(AllocatorTest, FreedMemoryIsReusedByItsStreamOnly) {
  const OpenRegStream side = getStreamFromPool(0, 0);
  DataPtr data = allocator.allocate(512);
  void* address = data.get();
  data.clear();
  EXPECT_NE(allocator.allocate(512, side).get(), address);
  EXPECT_EQ(allocator.allocate(512).get(), address);
  setCurrentOpenRegStream(side);
  EXPECT_NE(allocator.allocate(512).get(), address);
}

TEST_F(AllocatorTest, RecordedMemoryIsKeptUntilTheStreamHasRun) {
  const OpenRegStream side = getStreamFromPool(0, 1); // of another device
  DataPtr data = allocator.allocate(512);
  void* address = data.get();
  Gate gate(side);
  allocator.recordStream(data, side);
  data.clear();
  EXPECT_NE(allocator.allocate(512).get(), address);
  gate.open();
  side.synchronize();
  EXPECT_EQ(allocator.allocate(512).get(), address);
}

TEST_F(AllocatorTest, RecordStreamTakesWhatIsNotItsOwn) {
  const OpenRegStream side = getStreamFromPool(0, 0);
  allocator.recordStream(allocator.allocate(0), side);

  ::openreg::testing::DeviceArray<char> foreign(512);
  allocator.recordStream(DataPtr(foreign.data(), device(0)), side);

  int here = 0;
  const DataPtr host(&here, Device(DeviceType::CPU));
  EXPECT_TRUE(
      has(messageOf([&] { allocator.recordStream(host, side); }),
          "expected memory of an openreg device, but got memory of cpu"));
  const Stream other(Stream::DEFAULT, Device(DeviceType::CPU));
  const DataPtr data = allocator.allocate(512);
  EXPECT_THROW(allocator.recordStream(data, other), Error);
}

TEST_F(AllocatorTest, MemoryRecordedOnAStreamThatIsGoneIsFreedAtOnce) {
  orStream_t made = nullptr;
  ASSERT_EQ(orStreamCreate(&made), orSuccess);
  DataPtr data = allocator.allocate(512);
  void* address = data.get();
  allocator.recordStream(data, getStreamFromExternal(made, 0));
  ASSERT_EQ(orStreamDestroy(made), orSuccess);
  data.clear();
  EXPECT_EQ(allocator.allocate(512).get(), address);
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
}

// Its errors must not cost the pool its blocks. In a child, because a reset takes
// the allocator's memory away.
TEST(AllocatorChildTest, EmptyCacheOnABrokenDeviceThrowsAndChangesNothing) {
  EXPECT_CHILD_SUCCEEDS([] {
    OpenRegDeviceAllocator& allocator = getOpenRegDeviceAllocator();
    const OpenRegStream side = getStreamFromPool(0, 0);
    DataPtr data = allocator.allocate(512);
    allocator.recordStream(data, side);
    Gate gate(side);
    data.clear();
    CHILD_REQUIRE(allocator.getDeviceStats(0).active[0].current == 1);
    const auto fail = [] { orKernelFail(orErrorAssert, "on purpose"); };
    CHILD_REQUIRE(orLaunchKernel(side, fail) == orSuccess);
    gate.open();
    CHILD_REQUIRE(orDeviceSynchronize() == orErrorAssert);

    const auto segments = [&] {
      return allocator.getDeviceStats(0).segment[0].current;
    };
    const auto before = segments();
    try {
      allocator.emptyCache();
    } catch (const c10::AcceleratorError&) {
      // It waits for nothing, and counts nothing as given back.
      return allocator.getDeviceStats(0).active[0].current == 0 &&
          segments() == before;
    }
    return false;
  });
}

// --- no memory left -----------------------------------------------------------

TEST_F(AllocatorTest, OutOfMemoryTellsTheFiguresCudaTells) {
  using CachingAllocator::format_size;
  const DataPtr data = allocator.allocate(3 * kMiB);
  const auto [free, total] = allocator.getMemoryInfo(0);
  const auto held = static_cast<uint64_t>(allocated(0));
  const auto unused = static_cast<uint64_t>(reserved(0) - allocated(0));
  std::string message;
  try {
    allocator.allocate(total + 1);
  } catch (const OutOfMemoryError& error) {
    message = error.what_without_backtrace();
  }
  for (const std::string& part :
       {"OpenReg out of memory. Tried to allocate " + format_size(total + 1),
        "GPU 0 has a total capacity of " + format_size(total),
        "of which " + format_size(free) + " is free",
        format_size(held) + " is allocated by PyTorch",
        format_size(unused) + " is reserved by PyTorch but unallocated",
        std::string("OPENREG_DEVICE_MEMORY")}) {
    EXPECT_TRUE(has(message, part));
  }
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
}

TEST_F(AllocatorTest, SizesThatNoDeviceHasAreOutOfMemory) {
  const DataPtr kept = allocator.allocate(512);
  for (const size_t size : {SIZE_MAX, SIZE_MAX - kMiB, SIZE_MAX / 2}) {
    EXPECT_THROW(allocator.allocate(size), OutOfMemoryError) << size;
  }
}

TEST_F(AllocatorTest, TryAllocateGivesNothingWhereAllocateWouldWait) {
  const auto [free, total] = allocator.getMemoryInfo(0);
  const OpenRegStream stream = getDefaultOpenRegStream(0);
  const DataPtr most = allocator.allocate(free - 100 * kMiB, stream);
  EXPECT_FALSE(allocator.tryAllocate(200 * kMiB, stream));
  EXPECT_TRUE(allocator.tryAllocate(1000, stream));
  EXPECT_THROW(allocator.tryAllocate(total + 1, stream), OutOfMemoryError);
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
}

TEST_F(AllocatorTest, WhatWasReleasedCanBeOwnedAgain) {
  const int64_t before = allocated(0);
  DataPtr data = allocator.allocate(1000);
  void* pointer = data.release_context();
  data.clear();
  EXPECT_EQ(allocated(0), before + 1024);
  DataPtr again = allocator.adopt(pointer, 0);
  EXPECT_EQ(again.get(), pointer);
  EXPECT_EQ(again.device(), device(0));
  again.clear();
  EXPECT_EQ(allocated(0), before);
}

// --- figures ------------------------------------------------------------------

TEST_F(AllocatorTest, EmptyCacheGivesUnusedMemoryBackToTheDevice) {
  const size_t free = allocator.getMemoryInfo(1).first;
  allocator.allocate(3 * kMiB, getDefaultOpenRegStream(1));
  EXPECT_EQ(allocator.getMemoryInfo(1).first, free - 20 * kMiB);
  allocator.emptyCache();
  EXPECT_EQ(allocator.getMemoryInfo(1).first, free);
}

TEST_F(AllocatorTest, EmptyCacheOfAPoolLeavesTheOthersAlone) {
  allocator.emptyCache();
  const size_t free = allocator.getMemoryInfo(1).first;
  allocator.allocate(3 * kMiB, getDefaultOpenRegStream(1));
  allocator.emptyCache({1, 0});
  EXPECT_EQ(allocator.getMemoryInfo(1).first, free - 20 * kMiB);
}

TEST_F(AllocatorTest, FiguresOfDevicesThatDoNotExistAreRefused) {
  for (const DeviceIndex index : {-1, 2, 63, 64, 127}) {
    EXPECT_THROW(allocator.getDeviceStats(index), Error) << int(index);
    EXPECT_THROW(allocator.resetPeakStats(index), Error) << int(index);
    EXPECT_THROW(allocator.resetAccumulatedStats(index), Error) << int(index);
  }
  EXPECT_THROW(allocator.getMemoryInfo(2), Error);
}

TEST_F(AllocatorTest, PeaksAndSumsAreResetPerDevice) {
  for (const DeviceIndex index : {0, 1}) {
    allocator.allocate(3 * kMiB, getDefaultOpenRegStream(index));
  }
  allocator.resetPeakStats(0);
  allocator.resetAccumulatedStats(0);
  EXPECT_TRUE(allocator.initialized());
  const auto first = allocator.getDeviceStats(0);
  EXPECT_EQ(first.allocated_bytes[0].peak, first.allocated_bytes[0].current);
  EXPECT_EQ(first.allocated_bytes[0].allocated, 0);
  const auto second = allocator.getDeviceStats(1);
  EXPECT_GE(second.allocated_bytes[0].peak, int64_t(3 * kMiB));
  EXPECT_GE(second.allocated_bytes[0].allocated, int64_t(3 * kMiB));
  EXPECT_GE(second.num_device_alloc, 1);
}

TEST_F(AllocatorTest, ThreadsShareOnePoolPerDevice) {
  constexpr int kThreads = 4;
  std::vector<DataPtr> data(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { data[i] = allocator.allocate(512); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  std::set<void*> addresses;
  for (const DataPtr& held : data) {
    addresses.insert(held.get());
  }
  EXPECT_EQ(addresses.size(), size_t{kThreads});
  EXPECT_EQ(reserved(0), int64_t(2 * kMiB)); // one segment for all
}

// --- addresses ----------------------------------------------------------------

TEST_F(AllocatorTest, KernelsSeeTheBytesThatTheDeviceAddressNames) {
  for (const DeviceIndex index : {0, 1}) {
    const DataPtr data =
        allocator.allocate(512, getDefaultOpenRegStream(index));
    bytes(data.get())[100] = 'k';
    char seen = 0;
    ASSERT_EQ(
        orMemcpy(
            &seen,
            static_cast<char*>(data.get()) + 100,
            1,
            orMemcpyDeviceToHost),
        orSuccess);
    EXPECT_EQ(seen, 'k');
  }
}

TEST_F(AllocatorTest, AddressesAreTranslatedBothWays) {
  const DataPtr data = allocator.allocate(512);
  char* inside = static_cast<char*>(data.get()) + 17;
  EXPECT_NE(kernelAddress(inside), inside);
  EXPECT_EQ(deviceAddress(kernelAddress(inside)), inside);
  EXPECT_EQ(kernelAddress(inside), orKernelPointer(inside));
  EXPECT_EQ(kernelAddress(nullptr), nullptr);
  EXPECT_EQ(deviceAddress(nullptr), nullptr);
}

} // namespace
} // namespace c10::openreg::testing
