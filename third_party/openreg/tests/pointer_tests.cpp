// What a pointer points to, and device memory opened to the host.
#include "support.h"

#include <csignal>
#include <cstring>

namespace openreg::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

class PointerTest : public ::testing::Test {
 protected:
  orPointerAttributes attributesOf(const void* pointer) {
    orPointerAttributes attributes{orMemoryType(3), 77, this};
    EXPECT_EQ(orPointerGetAttributes(&attributes, pointer), orSuccess);
    EXPECT_EQ(attributes.pointer, pointer);
    return attributes;
  }
};

TEST_F(PointerTest, DeviceMemoryIsKnownFromItsFirstToItsLastByte) {
  for (int device : {1, 0}) {
    ASSERT_EQ(orSetDevice(device), orSuccess);
    DeviceArray<char> array(3 * kPage);
    for (size_t offset : {size_t{0}, size_t{1}, kPage, 3 * kPage - 1}) {
      const auto attributes = attributesOf(array.data() + offset);
      EXPECT_EQ(attributes.type, orMemoryTypeDevice) << offset;
      EXPECT_EQ(attributes.device, device) << offset;
    }
  }
}

TEST_F(PointerTest, PinnedMemoryIsKnownFromItsFirstToItsLastByte) {
  PinnedArray<char> pinned(2 * kPage, 'x');
  for (size_t offset : {size_t{0}, size_t{1}, 2 * kPage - 1}) {
    const auto attributes = attributesOf(pinned.data() + offset);
    EXPECT_EQ(attributes.type, orMemoryTypeHost) << offset;
    EXPECT_EQ(attributes.device, -1) << offset;
  }
}

TEST_F(PointerTest, OtherAddressesAreUnmanaged) {
  const std::vector<char> heap(1);
  for (const void* pointer :
       {static_cast<const void*>(this),
        static_cast<const void*>(heap.data()),
        static_cast<const void*>(nullptr),
        reinterpret_cast<const void*>(UINTPTR_MAX)}) {
    const auto attributes = attributesOf(pointer);
    EXPECT_EQ(attributes.type, orMemoryTypeUnmanaged) << pointer;
    EXPECT_EQ(attributes.device, -1) << pointer;
  }
}

TEST_F(PointerTest, DeviceMemoryThatIsNotAllocatedIsAnError) {
  void* freed = nullptr;
  {
    DeviceArray<char> array(kPage);
    freed = array.data();
  }
  orPointerAttributes attributes{};
  EXPECT_EQ(orPointerGetAttributes(&attributes, freed), orErrorInvalidValue);
  EXPECT_TRUE(detailHas(hex(freed)));

  DeviceArray<char> array(kPage);
  char* end = array.data() + kPage;
  EXPECT_EQ(orPointerGetAttributes(&attributes, end), orErrorInvalidValue);
  EXPECT_TRUE(detailHas(hex(end)));
}

TEST_F(PointerTest, AttributesNeedAPlaceForTheAnswer) {
  EXPECT_EQ(orPointerGetAttributes(nullptr, this), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("attributes"));
}

constexpr int kWentWell = 42;

// How a process ends that touches what it may not: of SIGSEGV, unless a
// sanitizer catches that, reports it and exits.
bool diedOfAccess(int status) {
  return (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) ||
      (kSanitized && WIFEXITED(status) && WEXITSTATUS(status) != kWentWell);
}

/// Reads or writes in a way no compiler leaves out, and says that it went well.
[[noreturn]] void touch(volatile char* pointer, bool write) {
  if (write) {
    *pointer = 1;
  } else {
    static_cast<void>(*pointer);
  }
  std::_Exit(kWentWell);
}

TEST(HostAccessDeathTest, TouchingDeviceMemoryEndsTheProcess) {
  DeviceArray<char> array(2 * kPage);
  for (size_t offset : {size_t{0}, 2 * kPage - 1}) {
    char* byte = array.data() + offset;
    EXPECT_EXIT(touch(byte, false), diedOfAccess, "");
    EXPECT_EXIT(touch(byte, true), diedOfAccess, "");
  }
}

TEST(HostAccessDeathTest, ClosingTheLastOpeningClosesTheMemory) {
  DeviceArray<char> array(2 * kPage);
  ASSERT_EQ(orMemoryUnprotect(array.data()), orSuccess);
  ASSERT_EQ(orMemoryUnprotect(array.data()), orSuccess);
  ASSERT_EQ(orMemoryProtect(array.data()), orSuccess);
  EXPECT_EXIT(
      touch(array.data() + kPage, true),
      ::testing::ExitedWithCode(kWentWell),
      "");
  ASSERT_EQ(orMemoryProtect(array.data()), orSuccess);
  EXPECT_EXIT(touch(array.data() + kPage, false), diedOfAccess, "");
}

TEST(HostAccessDeathTest, OpeningOneAllocationLeavesItsNeighboursClosed) {
  DeviceArray<char> left(kPage);
  DeviceArray<char> open(1);
  DeviceArray<char> right(kPage);
  ASSERT_EQ(orMemoryUnprotect(open.data()), orSuccess);
  EXPECT_EXIT(
      touch(open.data(), false), ::testing::ExitedWithCode(kWentWell), "");
  EXPECT_EXIT(touch(left.data() + kPage - 1, false), diedOfAccess, "");
  EXPECT_EXIT(touch(right.data(), false), diedOfAccess, "");
  ASSERT_EQ(orMemoryProtect(open.data()), orSuccess);
}

TEST(HostAccessDeathTest, AnAllocationFreedWhileOpenIsClosedForItsNextOwner) {
  char* before = nullptr;
  {
    DeviceArray<char> array(kPage);
    before = array.data();
    ASSERT_EQ(orMemoryUnprotect(before), orSuccess);
  }
  EXPECT_EXIT(touch(before, false), diedOfAccess, "");
  DeviceArray<char> array(kPage);
  ASSERT_EQ(array.data(), before) << "the same pages";
  EXPECT_EQ(orMemoryProtect(array.data()), orErrorInvalidValue);
  EXPECT_EXIT(touch(array.data(), false), diedOfAccess, "");
}

TEST(HostAccessTest, TheHostSeesWhatTheDeviceWroteAndTheOtherWayRound) {
  DeviceArray<char> array(2 * kPage);
  ASSERT_EQ(orMemset(array.data(), 'd', array.bytes()), orSuccess);
  ASSERT_EQ(orMemoryUnprotect(array.data()), orSuccess);
  EXPECT_EQ(array.data()[0], 'd');
  EXPECT_EQ(array.data()[2 * kPage - 1], 'd');
  std::memset(array.data(), 'h', array.bytes());
  ASSERT_EQ(orMemoryProtect(array.data()), orSuccess);
  EXPECT_EQ(array.read(), std::vector<char>(array.bytes(), 'h'));
}

TEST(HostAccessTest, PairsNestAndTakeAnyAddressInsideTheAllocation) {
  DeviceArray<char> array(2 * kPage);
  ASSERT_EQ(orMemset(array.data(), 'd', array.bytes()), orSuccess);
  ASSERT_EQ(orMemoryUnprotect(array.data() + 1), orSuccess);
  ASSERT_EQ(orMemoryUnprotect(array.data() + 2 * kPage - 1), orSuccess);
  ASSERT_EQ(orMemoryProtect(array.data() + kPage), orSuccess);
  EXPECT_EQ(array.data()[0], 'd') << "still open";
  ASSERT_EQ(orMemoryProtect(array.data()), orSuccess);

  EXPECT_EQ(orMemoryProtect(array.data()), orErrorInvalidValue);
  EXPECT_TRUE(detailHas(hex(array.data())));
}

TEST(AddressRangeTest, IsTheAllocationAroundAnAddress) {
  DeviceArray<char> array(kPage + 1), other(kPage);
  for (char* pointer : {array.data(), array.data() + kPage}) {
    void* base = nullptr;
    size_t size = 0;
    ASSERT_EQ(orMemGetAddressRange(&base, &size, pointer), orSuccess);
    EXPECT_EQ(base, array.data());
    EXPECT_EQ(size, 2 * kPage);
  }
  EXPECT_EQ(orMemGetAddressRange(nullptr, nullptr, other.data()), orSuccess);
}

TEST(AddressRangeTest, IsForLiveAllocationsOnly) {
  char local = 0;
  char* freed = nullptr;
  {
    DeviceArray<char> array(kPage);
    freed = array.data();
  }
  char* null = nullptr;
  for (char* pointer : {&local, freed, null}) {
    void* base = &local;
    size_t size = 7;
    EXPECT_EQ(orMemGetAddressRange(&base, &size, pointer), orErrorInvalidValue);
    EXPECT_TRUE(!pointer || detailHas(hex(pointer)));
    EXPECT_EQ(base, &local);
    EXPECT_EQ(size, 7u);
  }
}

TEST(HostAccessTest, OnlyLiveAllocationsCanBeOpenedAndClosed) {
  char local = 0;
  PinnedArray<char> pinned(1, 'x');
  char* freed = nullptr;
  {
    DeviceArray<char> array(kPage);
    freed = array.data();
  }
  char* null = nullptr;
  for (char* pointer : {&local, pinned.data(), freed, null}) {
    EXPECT_EQ(orMemoryUnprotect(pointer), orErrorInvalidValue) << hex(pointer);
    EXPECT_NE(lastDetail(), "");
    EXPECT_EQ(orMemoryProtect(pointer), orErrorInvalidValue) << hex(pointer);
    EXPECT_TRUE(!pointer || detailHas(hex(pointer)));
  }
}

TEST(HostAccessTest, AnAllocationThatIsNotOpenCannotBeClosed) {
  DeviceArray<char> array(kPage);
  EXPECT_EQ(orMemoryProtect(array.data()), orErrorInvalidValue);
  EXPECT_TRUE(detailHas(hex(array.data())));
}

TEST(HostAccessTest, AnAllocationOfABrokenDeviceCanBeOpened) {
  void* memory = nullptr;
  ASSERT_EQ(orMalloc(&memory, kPage), orSuccess);
  BrokenDevice broken;
  EXPECT_EQ(orMemoryUnprotect(memory), orSuccess);
  EXPECT_EQ(orMemoryProtect(memory), orSuccess);
}

} // namespace
} // namespace openreg::testing
