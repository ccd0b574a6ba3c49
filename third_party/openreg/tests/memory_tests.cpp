// Device memory: allocating, freeing, figures, and what pointers point to.
#include "support.h"

#include <sys/stat.h>

#include <filesystem>
#include <thread>

namespace openreg::testing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

size_t freeBytes() {
  size_t free = 0;
  EXPECT_EQ(orMemGetInfo(&free, nullptr), orSuccess);
  return free;
}

char* allocate(size_t size) {
  void* memory = nullptr;
  EXPECT_EQ(orMalloc(&memory, size), orSuccess) << lastDetail();
  return static_cast<char*>(memory);
}

TEST(MallocTest, AddressesAreAlignedToAPageAndDiffer) {
  DeviceArray<char> first(1);
  DeviceArray<char> second(kPage + 1);
  DeviceArray<char> third(1);
  for (const auto* array : {&first, &second, &third}) {
    EXPECT_NE(array->data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(array->data()) % kPage, 0u);
  }
  EXPECT_NE(first.data(), third.data());
}

TEST(MallocTest, ASizeOfZeroOrNoPlaceForTheAnswerFails) {
  int any = 0;
  void* memory = &any;
  EXPECT_EQ(orMalloc(&memory, 0), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("size"));
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(orMalloc(nullptr, 1), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("pointer"));
}

TEST(MallocTest, MoreThanTheDeviceHasFails) {
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(orMemGetInfo(&free, &total), orSuccess);
  for (size_t size : {free + 1, total + kPage, SIZE_MAX, SIZE_MAX - kPage}) {
    int any = 0;
    void* memory = &any;
    EXPECT_EQ(orMalloc(&memory, size), orErrorMemoryAllocation) << size;
    EXPECT_TRUE(detailHas(std::to_string(size)));
    EXPECT_TRUE(detailHas(std::to_string(free)));
    EXPECT_EQ(memory, nullptr);
  }
  EXPECT_EQ(freeBytes(), free);
}

TEST(MallocTest, TheCapacityCanBeUsedToTheLastPage) {
  auto body = [] {
    setenv("OPENREG_DEVICE_MEMORY", "1MiB", 1);
    size_t total = 0;
    CHILD_REQUIRE(orMemGetInfo(nullptr, &total) == orSuccess);
    CHILD_REQUIRE(total == kMiB);
    std::vector<void*> pages(kMiB / kPage);
    for (void*& page : pages) {
      CHILD_REQUIRE(orMalloc(&page, kPage) == orSuccess);
      CHILD_REQUIRE(orMemset(page, 1, kPage) == orSuccess);
    }
    void* more = nullptr;
    CHILD_REQUIRE(freeBytes() == 0);
    CHILD_REQUIRE(orMalloc(&more, 1) == orErrorMemoryAllocation);
    CHILD_REQUIRE(orSetDevice(1) == orSuccess); // has a capacity of its own
    CHILD_REQUIRE(orMalloc(&more, kMiB) == orSuccess);

    CHILD_REQUIRE(orSetDevice(0) == orSuccess);
    for (void* page : pages) {
      CHILD_REQUIRE(orFree(page) == orSuccess);
    }
    CHILD_REQUIRE(orMalloc(&more, kMiB) == orSuccess); // one piece again
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(MemGetInfoTest, FiguresAreExactInWholePages) {
  const size_t before = freeBytes();
  for (size_t pages : {1, 2, 3, 700}) {
    for (size_t size : {(pages - 1) * kPage + 1, pages * kPage}) {
      {
        DeviceArray<char> array(size);
        EXPECT_EQ(freeBytes(), before - pages * kPage) << size;
      }
      EXPECT_EQ(freeBytes(), before) << size;
    }
  }
}

TEST(MemGetInfoTest, EitherFigureMayBeLeftOut) {
  size_t free = 0;
  size_t total = 0;
  EXPECT_EQ(orMemGetInfo(nullptr, nullptr), orSuccess);
  EXPECT_EQ(orMemGetInfo(&free, nullptr), orSuccess);
  EXPECT_EQ(orMemGetInfo(nullptr, &total), orSuccess);
  EXPECT_EQ(free, total) << "nothing is allocated";
  EXPECT_GT(total, 0u);
}

TEST(FreeTest, NullIsNothingToDo) {
  orGetLastError();
  EXPECT_EQ(orFree(nullptr), orSuccess);
  EXPECT_EQ(orGetLastError(), orSuccess);
}

TEST(FreeTest, MemoryIsFreedOnce) {
  char* memory = allocate(kPage);
  ASSERT_EQ(orFree(memory), orSuccess);
  const size_t before = freeBytes();
  EXPECT_EQ(orFree(memory), orErrorInvalidValue);
  EXPECT_TRUE(detailHas(hex(memory)));
  EXPECT_EQ(freeBytes(), before);
}

TEST(FreeTest, OnlyTheStartOfAnAllocationCanBeFreed) {
  DeviceArray<char> array(2 * kPage);
  PinnedArray<char> pinned(1, 'x');
  char local = 0;
  const size_t before = freeBytes();
  for (char* pointer :
       {array.data() + 1,
        array.data() + kPage,
        array.kernel(),
        pinned.data(),
        &local}) {
    EXPECT_EQ(orFree(pointer), orErrorInvalidValue);
    EXPECT_TRUE(detailHas(hex(pointer)));
  }
  EXPECT_EQ(freeBytes(), before);
}

TEST(FreeTest, TheCurrentDeviceNeedNotBeTheMemorys) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  const size_t before = freeBytes();
  char* memory = allocate(kPage);
  ASSERT_EQ(orSetDevice(0), orSuccess);
  EXPECT_EQ(orFree(memory), orSuccess);
  ASSERT_EQ(orSetDevice(1), orSuccess);
  EXPECT_EQ(freeBytes(), before);
  ASSERT_EQ(orSetDevice(0), orSuccess);
}

TEST(FreeTest, FreeingWaitsForAllWorkOfTheDevice) {
  Stream stream(orStreamNonBlocking);
  char* memory = allocate(kPage);
  bool ran = false;
  Gate gate(stream);
  auto kernel = [&ran, bytes = static_cast<char*>(orKernelPointer(memory))] {
    bytes[0] = 1;
    ran = true;
  };
  ASSERT_EQ(orLaunchKernel(stream, kernel), orSuccess);
  orError_t status = orErrorNotReady;
  EXPECT_TRUE(waitsForGate(gate, [&] { status = orFree(memory); }));
  EXPECT_EQ(status, orSuccess);
  EXPECT_TRUE(ran);
}

TEST(FreeTest, FreeingDoesNotWaitForAnotherDevice) {
  char* memory = allocate(kPage);
  Gate gate(defaultStream(1));
  EXPECT_EQ(orFree(memory), orSuccess);
  EXPECT_EQ(orStreamQuery(defaultStream(1)), orErrorNotReady);
}

struct Inside {
  void* memory;
  orError_t status = orSuccess;
};

void freeInside(void* data) {
  auto* inside = static_cast<Inside*>(data);
  inside->status = orFree(inside->memory);
}

// Also in a stream of the other device, when there is nothing to wait for.
TEST(FreeTest, FreeingInsideAKernelOrAHostFunctionIsNotPermitted) {
  for (int device : {0, 1}) {
    const orStream_t stream = defaultStream(device);
    DeviceArray<char> array(1);
    Inside kernel{array.data()};
    Inside function{array.data()};
    ASSERT_EQ(orLaunchKernel(stream, freeInside, &kernel), orSuccess);
    ASSERT_EQ(orLaunchHostFunc(stream, freeInside, &function), orSuccess);
    ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
    EXPECT_EQ(kernel.status, orErrorNotPermitted) << device;
    EXPECT_EQ(function.status, orErrorNotPermitted) << device;
    EXPECT_EQ(orMemset(array.data(), 1, 1), orSuccess) << "still allocated";
  }
}

TEST(FreeTest, FreeingGivesUpAfterTheTimeoutAndKeepsTheMemory) {
  auto body = [] {
    setenv("OPENREG_WAIT_TIMEOUT", "0.05", 1);
    char* memory = allocate(kPage);
    Gate gate(defaultStream());
    CHILD_REQUIRE(orFree(memory) == orErrorTimeout);
    orPointerAttributes attributes{};
    CHILD_REQUIRE(orPointerGetAttributes(&attributes, memory) == orSuccess);
    gate.open();
    orError_t status = orErrorTimeout;
    while (status == orErrorTimeout) {
      status = orFree(memory);
    }
    return status == orSuccess;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(MemoryTest, ABrokenDeviceGivesItsErrorUntilReset) {
  char* kept = allocate(kPage);
  {
    BrokenDevice broken;
    void* memory = nullptr;
    EXPECT_EQ(orMalloc(&memory, 1), orErrorAssert);
    EXPECT_TRUE(detailHas(BrokenDevice::kMessage));
    EXPECT_EQ(orFree(kept), orErrorAssert);
    EXPECT_EQ(orMemGetInfo(nullptr, nullptr), orErrorAssert);
    orPointerAttributes attributes{};
    EXPECT_EQ(orPointerGetAttributes(&attributes, kept), orSuccess);
  }
  DeviceArray<char> array(1);
  EXPECT_NE(array.data(), nullptr);
}

// Shared pages that the process has mapped, and pages of files without a name,
// which stay in memory after they were unmapped. A sanitizer's own pages are
// neither.
size_t heldBytes() {
  size_t held = 0;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "RssShmem:") {
      status >> held;
      held *= 1024;
    }
  }
  namespace fs = std::filesystem;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    struct stat file {};
    std::error_code error;
    const auto target = fs::read_symlink(entry, error).string();
    if (target.starts_with("/memfd:") &&
        stat(entry.path().c_str(), &file) == 0) {
      held += static_cast<size_t>(file.st_blocks) * 512;
    }
  }
  return held;
}

bool freedPagesGoBack(size_t blockSize, size_t total, size_t slack) {
  std::vector<char*> blocks(total / blockSize);
  CHILD_REQUIRE(orMemset(allocate(kPage), 1, kPage) == orSuccess);
  const size_t before = heldBytes();
  for (char*& block : blocks) {
    block = allocate(blockSize);
    CHILD_REQUIRE(orMemset(block, 1, blockSize) == orSuccess);
  }
  CHILD_REQUIRE(heldBytes() > before + total - slack);
  for (char* block : blocks) {
    CHILD_REQUIRE(orFree(block) == orSuccess);
  }
  CHILD_REQUIRE(heldBytes() < before + slack);
  return true;
}

TEST(FreeTest, PagesOfALargeBlockGoBackToTheSystem) {
  auto body = [] {
    return freedPagesGoBack(256 * kMiB, 256 * kMiB, 32 * kMiB);
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(FreeTest, PagesOfSmallBlocksGoBackToTheSystem) {
  auto body = [] { return freedPagesGoBack(kMiB / 4, 128 * kMiB, 32 * kMiB); };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ReuseTest, TheSmallestHoleThatFitsIsTaken) {
  char* large = allocate(4 * kPage);
  DeviceArray<char> wall1(1);
  char* small = allocate(2 * kPage);
  DeviceArray<char> wall2(1);
  char* middle = allocate(3 * kPage);
  DeviceArray<char> wall3(1);
  for (char* block : {large, small, middle}) {
    ASSERT_EQ(orFree(block), orSuccess);
  }

  DeviceArray<char> three(3 * kPage);
  DeviceArray<char> two(2 * kPage);
  DeviceArray<char> one(1);
  EXPECT_EQ(three.data(), middle);
  EXPECT_EQ(two.data(), small);
  EXPECT_EQ(one.data(), large);
}

TEST(ReuseTest, NeighbouringHolesBecomeOne) {
  DeviceArray<char> wall1(1);
  char* left = allocate(kPage);
  char* middle = allocate(kPage);
  char* right = allocate(kPage);
  DeviceArray<char> wall2(1);
  for (char* block : {left, right, middle}) {
    ASSERT_EQ(orFree(block), orSuccess);
  }
  DeviceArray<char> whole(3 * kPage);
  EXPECT_EQ(whole.data(), std::min({left, middle, right}));
}

TEST(ReuseTest, DataStaysWhenNeighboursAreFreedAndUsedAgain) {
  for (size_t size : {kPage, 64 * kPage, 2 * kMiB}) {
    char* left = allocate(size);
    DeviceArray<unsigned char> kept(size);
    char* right = allocate(size);
    ASSERT_EQ(orMemset(kept.data(), 0x5a, size), orSuccess);
    ASSERT_EQ(orFree(left), orSuccess);
    ASSERT_EQ(orFree(right), orSuccess);
    DeviceArray<char> newLeft(size);
    DeviceArray<char> newRight(size);
    ASSERT_EQ(orMemset(newLeft.data(), 1, size), orSuccess);
    ASSERT_EQ(orMemset(newRight.data(), 1, size), orSuccess);
    EXPECT_EQ(kept.read(), std::vector<unsigned char>(size, 0x5a));
  }
}

TEST(ReuseTest, ThreadsGetMemoryOfTheirOwn) {
  const size_t before = freeBytes();
  auto work = [](char mark) {
    for (int i = 0; i < 50; ++i) {
      DeviceArray<char> array((i % 7 + 1) * kPage);
      ASSERT_EQ(orMemset(array.data(), mark, array.bytes()), orSuccess);
      ASSERT_EQ(array.read(), std::vector<char>(array.bytes(), mark));
    }
  };
  std::vector<std::thread> threads;
  for (char mark : {1, 2, 3, 4}) {
    threads.emplace_back(work, mark);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(freeBytes(), before);
}

} // namespace
} // namespace openreg::testing
