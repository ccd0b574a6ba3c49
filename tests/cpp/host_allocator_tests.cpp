// Pinned host memory.
#include "support.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegHostAllocator.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace c10::openreg::testing {
namespace {

class HostAllocatorTest : public DeviceTest {
 protected:
  at::HostAllocator& allocator = *getOpenRegHostAllocator();
};

TEST_F(HostAllocatorTest, PyTorchFindsItByTheDeviceType) {
  EXPECT_EQ(at::getHostAllocator(at::kPrivateUse1), &allocator);
}

TEST_F(HostAllocatorTest, MemoryIsPinnedAndTheHostsOwn) {
  const DataPtr data = allocator.allocate(1000);
  EXPECT_EQ(data.device(), Device(DeviceType::CPU));
  auto* bytes = static_cast<char*>(data.get());
  bytes[999] = 1;
  EXPECT_TRUE(isPinned(bytes));
  EXPECT_TRUE(isPinned(bytes + 999));
}

TEST_F(HostAllocatorTest, ZeroBytesAreNoMemory) {
  EXPECT_EQ(allocator.allocate(0).get(), nullptr);
}

TEST_F(HostAllocatorTest, RawMemoryNeedsNoMoreThanItsPointer) {
  ASSERT_NE(allocator.raw_deleter(), nullptr);
  void* raw = allocator.raw_allocate(1000);
  EXPECT_TRUE(isPinned(raw));
  allocator.raw_deallocate(raw);
  EXPECT_EQ(allocator.raw_allocate(1000), raw);
  allocator.raw_deleter()(raw);
  allocator.raw_deallocate(allocator.raw_allocate(0));
}

TEST_F(HostAllocatorTest, APointerThatIsNotAllocatedIsWarnedOf) {
  Warnings warnings;
  int here = 0;
  allocator.raw_deallocate(&here);
  ASSERT_EQ(warnings.messages.size(), 1u);
  EXPECT_TRUE(has(warnings.messages[0], "there is no pinned allocation at"));
}

TEST_F(HostAllocatorTest, FreedMemoryIsUsedAgain) {
  DataPtr data = allocator.allocate(1000);
  void* address = data.get();
  data.clear();
  EXPECT_EQ(allocator.allocate(1000).get(), address);
}

TEST_F(HostAllocatorTest, MemoryOfACopyInFlightIsNotUsedAgain) {
  const OpenRegStream stream = getStreamFromPool(0, 1);
  setCurrentOpenRegStream(stream);
  const at::Tensor target =
      at::zeros({1000}, at::dtype(at::kByte).device(device(1)));
  at::Tensor source =
      at::empty({1000}, at::dtype(at::kByte).pinned_memory(true));
  source.fill_(7);
  void* address = source.data_ptr();
  stream.synchronize();

  Gate gate(stream);
  target.copy_(source, /*non_blocking=*/true);
  source.reset();
  const DataPtr second = allocator.allocate(1000);
  EXPECT_NE(second.get(), address);
  gate.open();
  EXPECT_EQ(elements<uint8_t>(target), std::vector<uint8_t>(1000, 7));
  EXPECT_EQ(allocator.allocate(1000).get(), address);
}

TEST_F(HostAllocatorTest, MemoryThatACopyWritesIsNotUsedAgainEither) {
  const OpenRegStream stream = getStreamFromPool(0, 0);
  const at::Tensor source =
      at::zeros({2000}, at::dtype(at::kByte).device(device(0)));
  at::Tensor target =
      at::empty({2000}, at::dtype(at::kByte).pinned_memory(true));
  void* address = target.data_ptr();
  device_synchronize();

  setCurrentOpenRegStream(stream);
  Gate gate(stream);
  target.copy_(source, /*non_blocking=*/true);
  target.reset();
  EXPECT_NE(allocator.allocate(2000).get(), address);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(allocator.allocate(2000).get(), address);
}

TEST_F(HostAllocatorTest, EventsAreRecordedForItsOwnMemoryOnly) {
  const OpenRegStream stream = getStreamFromPool();
  const DataPtr data = allocator.allocate(1000);
  EXPECT_TRUE(allocator.record_event(data.get(), data.get_context(), stream));
  // Anywhere in it, as long as the context says whose it is.
  auto* inside = static_cast<char*>(data.get()) + 10;
  EXPECT_TRUE(allocator.record_event(inside, data.get_context(), stream));
  EXPECT_TRUE(allocator.record_event(data.get(), nullptr, stream));
  int here = 0;
  EXPECT_FALSE(allocator.record_event(&here, nullptr, stream));
}

TEST_F(HostAllocatorTest, EmptyCacheUnpinsWhatIsNotUsed) {
  DataPtr data = allocator.allocate(12345);
  void* address = data.get();
  data.clear();
  EXPECT_TRUE(isPinned(address));
  allocator.empty_cache();
  EXPECT_FALSE(isPinned(address));
}

TEST_F(HostAllocatorTest, RegisteredMemoryIsPinned) {
  std::vector<char> bytes(1000);
  EXPECT_FALSE(isPinned(bytes.data()));
  ASSERT_EQ(orHostRegister(bytes.data(), bytes.size(), 0), orSuccess);
  EXPECT_TRUE(isPinned(bytes.data()));
  EXPECT_TRUE(isPinned(bytes.data() + 500));
  ASSERT_EQ(orHostUnregister(bytes.data()), orSuccess);
  EXPECT_FALSE(isPinned(bytes.data()));
}

TEST_F(HostAllocatorTest, OtherMemoryIsNotPinned) {
  int here = 0;
  EXPECT_FALSE(isPinned(&here));
  EXPECT_FALSE(isPinned(nullptr));
  void* freed = nullptr;
  {
    const DataPtr data = getOpenRegDeviceAllocator().allocate(4 << 20);
    freed = data.get();
    EXPECT_FALSE(isPinned(freed));
  }
  getOpenRegDeviceAllocator().emptyCache();
  EXPECT_FALSE(isPinned(freed));
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
}

TEST_F(HostAllocatorTest, CopyDataCopies) {
  const DataPtr from = allocator.allocate(100), to = allocator.allocate(100);
  static_cast<char*>(from.get())[99] = 'x';
  allocator.copy_data(to.get(), from.get(), 100);
  EXPECT_EQ(static_cast<char*>(to.get())[99], 'x');
}

TEST_F(HostAllocatorTest, FreeingOnABrokenDeviceDoesNotThrow) {
  EXPECT_CHILD_SUCCEEDS([] {
    at::HostAllocator& allocator = *getOpenRegHostAllocator();
    DataPtr data = allocator.allocate(1000);
    allocator.record_event(data.get(), data.get_context(), getStreamFromPool());
    const auto fail = [] { orKernelFail(orErrorAssert, "on purpose"); };
    CHILD_REQUIRE(
        orLaunchKernel(::openreg::testing::defaultStream(), fail) == orSuccess);
    CHILD_REQUIRE(orDeviceSynchronize() == orErrorAssert);
    data.clear();
    return true;
  });
}

} // namespace
} // namespace c10::openreg::testing
