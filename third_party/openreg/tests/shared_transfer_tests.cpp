// Large copies and sets, which several threads share.
#include "support.h"

#include <sys/mman.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

namespace openreg::testing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kOddBytes = 9 * kMiB + 4097;

using Bytes = std::vector<unsigned char>;

/// Bytes that differ from part to part.
Bytes pattern(size_t bytes) {
  Bytes values(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    values[i] = static_cast<unsigned char>(i * 2654435761u >> 13);
  }
  return values;
}

int transferThreads() {
  int count = 0;
  EXPECT_EQ(orGetTransferThreads(&count), orSuccess);
  return count;
}

/// Sets the number of threads until the end of the scope.
class TransferThreads {
 public:
  explicit TransferThreads(int count) : before_(transferThreads()) {
    EXPECT_EQ(orSetTransferThreads(count), orSuccess);
  }
  ~TransferThreads() {
    EXPECT_EQ(orSetTransferThreads(before_), orSuccess);
  }

 private:
  const int before_;
};

ptrdiff_t threadsOfTheProcess() {
  return std::distance(
      std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST(SharedTransferTest, ByDefaultThereIsOnePerProcessorAndAtMostFour) {
  auto body = [] {
    const int processors =
        static_cast<int>(std::thread::hardware_concurrency());
    return transferThreads() == std::min(processors, 4);
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(SharedTransferTest, TheNumberIsAtLeastOne) {
  const int before = transferThreads();
  for (int count : {0, -1}) {
    EXPECT_EQ(orSetTransferThreads(count), orErrorInvalidValue);
    EXPECT_TRUE(detailHas(std::to_string(count)));
  }
  EXPECT_EQ(transferThreads(), before);
  EXPECT_EQ(orGetTransferThreads(nullptr), orErrorInvalidValue);
}

TEST(SharedTransferTest, NoMoreThreadsAreStartedThanAskedFor) {
  auto body = [] {
    DeviceArray<unsigned char> array(8 * kMiB);
    const auto set = [&](int threads, size_t bytes) {
      CHILD_REQUIRE(orSetTransferThreads(threads) == orSuccess);
      CHILD_REQUIRE(orMemset(array.data(), 1, bytes) == orSuccess);
      return threadsOfTheProcess();
    };
    // The stream has its thread, and ThreadSanitizer one of its own.
    CHILD_REQUIRE(orLaunchKernel(defaultStream(), [] {}) == orSuccess);
    const ptrdiff_t alone = set(1, 8 * kMiB);
    CHILD_REQUIRE(set(4, kMiB) == alone); // too small to be shared
    CHILD_REQUIRE(set(2, 8 * kMiB) == alone + 1);
    CHILD_REQUIRE(set(4, 8 * kMiB) == alone + 3);
    CHILD_REQUIRE(set(2, 8 * kMiB) == alone + 3);
    CHILD_REQUIRE(set(100, 8 * kMiB) == alone + 7); // a mebibyte for each
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(SharedTransferTest, SharedTransfersWriteWhatOneThreadWould) {
  const Bytes source = pattern(kOddBytes);
  for (int count : {1, 2, 3, 8}) {
    TransferThreads threads(count);
    DeviceArray<unsigned char> first(kOddBytes), second(kOddBytes);
    ASSERT_EQ(
        orMemcpy(first.data(), source.data(), kOddBytes, orMemcpyHostToDevice),
        orSuccess);
    ASSERT_EQ(
        orMemcpyAsync(
            second.data(),
            first.data(),
            kOddBytes,
            orMemcpyDeviceToDevice,
            defaultStream()),
        orSuccess);
    EXPECT_EQ(second.read(), source);

    ASSERT_EQ(orMemset(second.data() + 1, 7, kOddBytes - 2), orSuccess);
    Bytes expected(kOddBytes, 7);
    expected.front() = source.front();
    expected.back() = source.back();
    EXPECT_EQ(second.read(), expected);
  }
}

TEST(SharedTransferTest, RowsAreSharedToo) {
  TransferThreads threads(3);
  constexpr size_t kWidth = 5000, kPitch = 5011, kRows = 1000;
  const Bytes source = pattern(kRows * kPitch);
  DeviceArray<unsigned char> array(source.size());
  ASSERT_EQ(orMemset(array.data(), 0, array.bytes()), orSuccess);
  ASSERT_EQ(
      orMemcpy2DAsync(
          array.data(),
          kPitch,
          source.data(),
          kPitch,
          kWidth,
          kRows,
          orMemcpyHostToDevice,
          defaultStream()),
      orSuccess);
  Bytes expected = source;
  for (size_t row = 0; row < kRows; ++row) {
    std::fill_n(
        expected.begin() + ptrdiff_t(row * kPitch + kWidth),
        kPitch - kWidth,
        0);
  }
  EXPECT_EQ(array.read(), expected);
}

TEST(SharedTransferTest, BytesThatOverlapAreMovedAsByOneThread) {
  TransferThreads threads(4);
  const Bytes source = pattern(kOddBytes);
  for (bool up : {true, false}) {
    DeviceArray<unsigned char> array(kOddBytes);
    ASSERT_EQ(
        orMemcpy(array.data(), source.data(), kOddBytes, orMemcpyHostToDevice),
        orSuccess);
    ASSERT_EQ(
        orMemcpy(
            array.data() + (up ? 100 : 0),
            array.data() + (up ? 0 : 100),
            kOddBytes - 100,
            orMemcpyDeviceToDevice),
        orSuccess);
    Bytes expected = source;
    if (up) {
      std::copy_backward(source.begin(), source.end() - 100, expected.end());
    } else {
      std::copy(source.begin() + 100, source.end(), expected.begin());
    }
    EXPECT_EQ(array.read(), expected);
  }
}

TEST(SharedTransferTest, StreamsThatCopyAtOnceDoNotMixTheirBytes) {
  TransferThreads threads(3);
  constexpr int kStreams = 3, kRounds = 5;
  std::vector<std::thread> hosts;
  for (int i = 0; i < kStreams; ++i) {
    hosts.emplace_back([i] {
      Stream stream;
      PinnedArray<unsigned char> host(4 * kMiB, static_cast<unsigned char>(i));
      DeviceArray<unsigned char> array(4 * kMiB);
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_EQ(
            orMemcpyAsync(
                array.data(),
                host.data(),
                host.bytes(),
                orMemcpyHostToDevice,
                stream),
            orSuccess);
        EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
      }
      EXPECT_EQ(array.read(), Bytes(4 * kMiB, static_cast<unsigned char>(i)));
    });
  }
  for (std::thread& host : hosts) {
    host.join();
  }
}

TEST(SharedTransferTest, ExitWaitsForNoQueuedTransfer) {
  auto body = [] {
    alarm(60);
    constexpr size_t kBytes = 8 * kMiB;
    void *device = nullptr, *host = nullptr;
    CHILD_REQUIRE(orSetTransferThreads(3) == orSuccess);
    CHILD_REQUIRE(orMalloc(&device, kBytes) == orSuccess);
    CHILD_REQUIRE(orMallocHost(&host, kBytes) == orSuccess);
    for (int i = 0; i < 100; ++i) {
      CHILD_REQUIRE(
          orMemcpyAsync(
              device, host, kBytes, orMemcpyHostToDevice, defaultStream()) ==
          orSuccess);
    }
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

// The bad address may be in the part of a helper or of the thread itself.
TEST(SharedTransferTest, AnIllegalAddressInAnyPartBreaksTheDevice) {
  TransferThreads threads(3);
  for (size_t good : {size_t{0}, 3 * kMiB, 15 * kMiB}) {
    DeviceArray<unsigned char> array(16 * kMiB);
    void* const memory = mmap(
        nullptr,
        16 * kMiB,
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS,
        -1,
        0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* const host = static_cast<unsigned char*>(memory);
    ASSERT_EQ(mprotect(host + good, 16 * kMiB - good, PROT_NONE), 0);
    EXPECT_EQ(
        orMemcpy(array.data(), host, 16 * kMiB, orMemcpyHostToDevice),
        orErrorIllegalAddress);
    EXPECT_TRUE(detailHas("it touched address 0x"));
    EXPECT_EQ(orDeviceSynchronize(), orErrorIllegalAddress) << "it sticks";
    munmap(memory, 16 * kMiB);
    ASSERT_EQ(orDeviceReset(), orSuccess);

    DeviceArray<unsigned char> next(16 * kMiB);
    ASSERT_EQ(orMemset(next.data(), 5, 16 * kMiB), orSuccess);
    EXPECT_EQ(next.read(), Bytes(16 * kMiB, 5));
  }
}

} // namespace
} // namespace openreg::testing
