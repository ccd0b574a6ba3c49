// Pinned host memory: allocated by the library, or registered with it.
#include "support.h"

// Sanitizers otherwise end the process where malloc() would return NULL.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}

namespace openreg::testing {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
constexpr size_t kMoreThanTheHostHas = size_t{1} << 60;

orMemoryType typeOf(const void* pointer) {
  orPointerAttributes attributes{};
  EXPECT_EQ(orPointerGetAttributes(&attributes, pointer), orSuccess);
  EXPECT_EQ(attributes.device, -1);
  return attributes.type;
}

TEST(MallocHostTest, TheHostWritesAndReadsItAndItIsAlignedToAPage) {
  void* memory = nullptr;
  ASSERT_EQ(orMallocHost(&memory, 3 * kPage + 1), orSuccess);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % kPage, 0u);
  auto* bytes = static_cast<char*>(memory);
  std::fill_n(bytes, 3 * kPage + 1, 'x');
  EXPECT_EQ(std::count(bytes, bytes + 3 * kPage + 1, 'x'), 3 * kPage + 1);
  EXPECT_EQ(typeOf(bytes), orMemoryTypeHost);
  EXPECT_EQ(typeOf(bytes + 3 * kPage), orMemoryTypeHost);
  EXPECT_EQ(orFreeHost(memory), orSuccess);
  EXPECT_EQ(typeOf(memory), orMemoryTypeUnmanaged);
}

TEST(MallocHostTest, ASizeOfZeroOrNoPlaceForTheAnswerFails) {
  int any = 0;
  void* memory = &any;
  EXPECT_EQ(orMallocHost(&memory, 0), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("size"));
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(orMallocHost(nullptr, 1), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("pointer"));
}

TEST(MallocHostTest, MoreThanTheHostHasFails) {
  for (size_t size : {kMoreThanTheHostHas, SIZE_MAX}) {
    int any = 0;
    void* memory = &any;
    EXPECT_EQ(orMallocHost(&memory, size), orErrorMemoryAllocation);
    EXPECT_TRUE(detailHas(std::to_string(size)));
    EXPECT_EQ(memory, nullptr);
  }
}

TEST(FreeHostTest, NullIsNothingToDo) {
  orGetLastError();
  EXPECT_EQ(orFreeHost(nullptr), orSuccess);
  EXPECT_EQ(orGetLastError(), orSuccess);
}

TEST(FreeHostTest, MemoryIsFreedOnce) {
  void* memory = nullptr;
  ASSERT_EQ(orMallocHost(&memory, 1), orSuccess);
  ASSERT_EQ(orFreeHost(memory), orSuccess);
  EXPECT_EQ(orFreeHost(memory), orErrorInvalidValue);
  EXPECT_TRUE(detailHas(hex(memory)));
}

TEST(FreeHostTest, OnlyTheStartOfMemoryFromMallocHostCanBeFreed) {
  PinnedArray<char> pinned(2 * kPage, 'x');
  DeviceArray<char> device(1);
  std::vector<char> registered(kPage);
  std::vector<char> plain(1);
  ASSERT_EQ(orHostRegister(registered.data(), kPage, 0), orSuccess);
  for (char* pointer :
       {pinned.data() + 1,
        pinned.data() + kPage,
        device.data(),
        registered.data(),
        plain.data()}) {
    EXPECT_EQ(orFreeHost(pointer), orErrorInvalidValue);
    EXPECT_TRUE(detailHas(hex(pointer)));
  }
  EXPECT_EQ(pinned[2 * kPage - 1], 'x') << "still there";
  EXPECT_EQ(orHostUnregister(registered.data()), orSuccess);
}

TEST(RegisterTest, TheRangeCountsAsPinnedUntilItIsUnregistered) {
  std::vector<char> memory(3 * kPage);
  char* start = memory.data() + 1;
  ASSERT_EQ(orHostRegister(start, kPage, 0), orSuccess);
  EXPECT_EQ(typeOf(start - 1), orMemoryTypeUnmanaged);
  EXPECT_EQ(typeOf(start), orMemoryTypeHost);
  EXPECT_EQ(typeOf(start + kPage - 1), orMemoryTypeHost);
  EXPECT_EQ(typeOf(start + kPage), orMemoryTypeUnmanaged);

  ASSERT_EQ(orHostUnregister(start), orSuccess);
  EXPECT_EQ(typeOf(start), orMemoryTypeUnmanaged);
  EXPECT_EQ(orHostRegister(start, kPage, 0), orSuccess) << "again";
  EXPECT_EQ(orHostUnregister(start), orSuccess);
}

TEST(RegisterTest, ArgumentsAreChecked) {
  std::vector<char> memory(kPage);
  EXPECT_EQ(orHostRegister(nullptr, kPage, 0), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("pointer"));
  EXPECT_EQ(orHostRegister(memory.data(), 0, 0), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("size"));
  EXPECT_EQ(orHostRegister(memory.data(), SIZE_MAX, 0), orErrorInvalidValue);
  EXPECT_TRUE(detailHas(std::to_string(SIZE_MAX)));
  EXPECT_EQ(orHostRegister(memory.data(), kPage, 6), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("6"));
  EXPECT_EQ(typeOf(memory.data()), orMemoryTypeUnmanaged);
}

TEST(RegisterTest, DeviceMemoryCannotBeRegistered) {
  DeviceArray<char> device(2 * kPage);
  for (size_t offset : {size_t{0}, kPage}) {
    char* pointer = device.data() + offset;
    EXPECT_EQ(orHostRegister(pointer, 1, 0), orErrorInvalidValue);
    EXPECT_TRUE(detailHas(hex(pointer)));
  }
  char* before = device.data() - kPage; // the range reaches into the memory
  EXPECT_EQ(orHostRegister(before, 2 * kPage, 0), orErrorInvalidValue);
}

TEST(RegisterTest, RangesMustNotOverlapPinnedMemory) {
  std::vector<char> memory(4 * kPage);
  char* start = memory.data() + kPage;
  ASSERT_EQ(orHostRegister(start, 2 * kPage, 0), orSuccess);
  const std::pair<char*, size_t> overlapping[] = {
      {start, 2 * kPage},
      {start + 1, 1},
      {start - 1, 2},
      {start + 2 * kPage - 1, 2},
      {memory.data(), 4 * kPage},
  };
  for (const auto& [pointer, size] : overlapping) {
    EXPECT_EQ(
        orHostRegister(pointer, size, 0), orErrorHostMemoryAlreadyRegistered);
    EXPECT_TRUE(detailHas(hex(pointer)));
  }
  EXPECT_EQ(orHostRegister(start - kPage, kPage, 0), orSuccess) << "touching";
  EXPECT_EQ(orHostRegister(start + 2 * kPage, kPage, 0), orSuccess);
  for (char* pointer : {start - kPage, start, start + 2 * kPage}) {
    EXPECT_EQ(orHostUnregister(pointer), orSuccess);
  }

  PinnedArray<char> pinned(kPage, 'x');
  EXPECT_EQ(
      orHostRegister(pinned.data() + 1, 1, 0),
      orErrorHostMemoryAlreadyRegistered);
}

TEST(UnregisterTest, OnlyTheStartOfARegisteredRangeIsAccepted) {
  EXPECT_EQ(orHostUnregister(nullptr), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("pointer"));

  std::vector<char> memory(kPage);
  PinnedArray<char> pinned(1, 'x');
  ASSERT_EQ(orHostRegister(memory.data(), kPage, 0), orSuccess);
  for (char* pointer : {memory.data() + 1, pinned.data()}) {
    EXPECT_EQ(orHostUnregister(pointer), orErrorHostMemoryNotRegistered);
    EXPECT_TRUE(detailHas(hex(pointer)));
  }
  ASSERT_EQ(orHostUnregister(memory.data()), orSuccess);
  EXPECT_EQ(orHostUnregister(memory.data()), orErrorHostMemoryNotRegistered);
  EXPECT_TRUE(detailHas(hex(memory.data())));
}

/// One pinned and one registered range.
class HostMemoryWorkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(orMallocHost(&pinned_, kPage), orSuccess);
    ASSERT_EQ(orHostRegister(memory_.data(), kPage, 0), orSuccess);
  }
  void TearDown() override {
    orFreeHost(pinned_);
    orHostUnregister(memory_.data());
  }

  void* pinned_ = nullptr;
  std::vector<char> memory_ = std::vector<char>(kPage);
};

TEST_F(HostMemoryWorkTest, FreeingWaitsForAllWorkOfAllDevices) {
  for (int device : {0, 1}) {
    void* memory = nullptr;
    ASSERT_EQ(orMallocHost(&memory, kPage), orSuccess);
    Gate gate(defaultStream(device));
    orError_t status = orErrorNotReady;
    EXPECT_TRUE(waitsForGate(gate, [&] { status = orFreeHost(memory); }));
    EXPECT_EQ(status, orSuccess);
  }
}

TEST_F(HostMemoryWorkTest, UnregisteringWaitsForAllWorkOfAllDevices) {
  for (int device : {0, 1}) {
    std::vector<char> memory(kPage);
    ASSERT_EQ(orHostRegister(memory.data(), kPage, 0), orSuccess);
    Gate gate(defaultStream(device));
    orError_t status = orErrorNotReady;
    EXPECT_TRUE(
        waitsForGate(gate, [&] { status = orHostUnregister(memory.data()); }));
    EXPECT_EQ(status, orSuccess);
  }
}

// They must be gone also after a failure, and no reset frees them.
TEST_F(HostMemoryWorkTest, ABrokenDeviceDoesNotKeepPinnedMemory) {
  BrokenDevice broken;
  EXPECT_EQ(orFreeHost(pinned_), orSuccess);
  EXPECT_EQ(orHostUnregister(memory_.data()), orSuccess);
}

struct Inside {
  void* pinned;
  void* registered;
  orError_t freeing = orSuccess;
  orError_t unregistering = orSuccess;
};

void releaseInside(void* data) {
  auto* inside = static_cast<Inside*>(data);
  inside->freeing = orFreeHost(inside->pinned);
  inside->unregistering = orHostUnregister(inside->registered);
}

TEST_F(HostMemoryWorkTest, ReleasingInsideAKernelOrAHostFunctionFails) {
  Inside kernel{pinned_, memory_.data()};
  Inside function = kernel;
  const orStream_t stream = defaultStream();
  ASSERT_EQ(
      orLaunchKernel(stream, [&kernel] { releaseInside(&kernel); }), orSuccess);
  ASSERT_EQ(orLaunchHostFunc(stream, releaseInside, &function), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  for (const Inside& inside : {kernel, function}) {
    EXPECT_EQ(inside.freeing, orErrorNotPermitted);
    EXPECT_EQ(inside.unregistering, orErrorNotPermitted);
  }
}

TEST(HostMemoryChildTest, ReleasingGivesUpAfterTheTimeoutAndKeepsTheMemory) {
  auto body = [] {
    setenv("OPENREG_WAIT_TIMEOUT", "0.05", 1);
    void* pinned = nullptr;
    std::vector<char> memory(kPage);
    CHILD_REQUIRE(orMallocHost(&pinned, kPage) == orSuccess);
    CHILD_REQUIRE(orHostRegister(memory.data(), kPage, 0) == orSuccess);
    Gate gate(defaultStream());
    CHILD_REQUIRE(orFreeHost(pinned) == orErrorTimeout);
    CHILD_REQUIRE(orHostUnregister(memory.data()) == orErrorTimeout);
    CHILD_REQUIRE(typeOf(pinned) == orMemoryTypeHost);
    CHILD_REQUIRE(typeOf(memory.data()) == orMemoryTypeHost);

    gate.open();
    while (orDeviceSynchronize() == orErrorTimeout) {
    }
    CHILD_REQUIRE(orFreeHost(pinned) == orSuccess);
    CHILD_REQUIRE(orHostUnregister(memory.data()) == orSuccess);
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

} // namespace
} // namespace openreg::testing
