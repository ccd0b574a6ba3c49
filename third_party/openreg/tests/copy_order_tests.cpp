// When copies run, when they return, and what they do to a device.
#include "support.h"

#include <cstring>

namespace openreg::testing {
namespace {

constexpr size_t kTakenAlong = size_t{256} << 10; // and no byte more
constexpr size_t kBytes = 8192;

using Bytes = std::vector<unsigned char>;

/// Queues a kernel that writes `value` behind whatever holds the stream.
void writeLater(
    orStream_t stream,
    const DeviceArray<unsigned char>& array,
    unsigned char value) {
  auto kernel = [bytes = array.kernel(), count = array.bytes(), value] {
    std::memset(bytes, value, count);
  };
  ASSERT_EQ(orLaunchKernel(stream, kernel), orSuccess);
}

/// Calls orMemcpy() or orMemset() while a stream is held.
class SyncOrderTest : public ::testing::Test {
 protected:
  void expectToComeAfter(orStream_t stream) {
    Bytes host(kBytes, 0);
    {
      Gate gate(stream);
      writeLater(stream, array_, 1);
      orError_t status = orErrorNotReady;
      EXPECT_TRUE(waitsForGate(gate, [&] {
        status = orMemcpy(host.data(), array_.data(), kBytes, orMemcpyDefault);
      }));
      EXPECT_EQ(status, orSuccess);
      EXPECT_EQ(host, Bytes(kBytes, 1));
    }
    Gate gate(stream);
    writeLater(stream, array_, 2);
    orError_t status = orErrorNotReady;
    EXPECT_TRUE(waitsForGate(
        gate, [&] { status = orMemset(array_.data(), 3, kBytes / 2); }));
    EXPECT_EQ(status, orSuccess);
    Bytes expected(kBytes, 2);
    std::fill_n(expected.begin(), kBytes / 2, 3);
    EXPECT_EQ(array_.read(), expected);
  }

  DeviceArray<unsigned char> array_{kBytes};
};

TEST_F(SyncOrderTest, ComesAfterTheWorkOfTheDefaultStream) {
  expectToComeAfter(defaultStream());
}

TEST_F(SyncOrderTest, ComesAfterTheWorkOfAStreamThatSharesItsOrder) {
  Stream stream(orStreamDefault);
  expectToComeAfter(stream);
}

TEST_F(SyncOrderTest, DoesNotWaitForAnIndependentStream) {
  Stream stream(orStreamNonBlocking);
  Bytes host(kBytes, 4);
  Gate gate(stream);
  EXPECT_EQ(orMemset(array_.data(), 3, kBytes), orSuccess);
  EXPECT_EQ(array_.read(), Bytes(kBytes, 3));
  EXPECT_EQ(
      orMemcpy(array_.data(), host.data(), kBytes, orMemcpyDefault), orSuccess);
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
}

TEST_F(SyncOrderTest, DoesNotWaitForAnotherDevice) {
  Gate gate(defaultStream(1));
  EXPECT_EQ(orMemset(array_.data(), 3, kBytes), orSuccess);
  EXPECT_EQ(array_.read(), Bytes(kBytes, 3));
  EXPECT_EQ(orStreamQuery(defaultStream(1)), orErrorNotReady);
}

/// A held stream, device memory with zeros, and copies to and from it.
class AsyncCopyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(orMemset(array_.data(), 0, array_.bytes()), orSuccess);
  }
  orError_t write(const void* src, size_t count) {
    return orMemcpyAsync(
        array_.data(), src, count, orMemcpyHostToDevice, stream_);
  }
  orError_t read(void* dst, size_t count) {
    return orMemcpyAsync(
        dst, array_.data(), count, orMemcpyDeviceToHost, stream_);
  }
  Bytes arrived(size_t count) {
    EXPECT_EQ(orStreamSynchronize(stream_), orSuccess);
    Bytes bytes = array_.read();
    bytes.resize(count);
    return bytes;
  }

  DeviceArray<unsigned char> array_{2 * kTakenAlong};
  Stream stream_;
};

TEST_F(AsyncCopyTest, UpTo256KiBOfPageableMemoryIsTakenAlong) {
  for (size_t count : {size_t{1}, size_t{100}, kTakenAlong}) {
    Bytes host(count, 1);
    Gate gate(stream_);
    ASSERT_EQ(write(host.data(), count), orSuccess);
    EXPECT_EQ(orStreamQuery(stream_), orErrorNotReady);
    host.assign(count, 2);
    host = Bytes(); // the memory need not even stay
    gate.open();
    EXPECT_EQ(arrived(count), Bytes(count, 1));
  }
}

TEST_F(AsyncCopyTest, MorePageableMemoryIsWaitedFor) {
  Bytes host(kTakenAlong + 1, 1);
  Gate gate(stream_);
  orError_t status = orErrorNotReady;
  EXPECT_TRUE(
      waitsForGate(gate, [&] { status = write(host.data(), host.size()); }));
  EXPECT_EQ(status, orSuccess);
  host.assign(host.size(), 2);
  EXPECT_EQ(arrived(host.size()), Bytes(host.size(), 1));
}

TEST_F(AsyncCopyTest, ACopyToPageableMemoryIsWaitedFor) {
  for (size_t count : {size_t{1}, 2 * kTakenAlong}) {
    Bytes host(count, 9);
    Gate gate(stream_);
    orError_t status = orErrorNotReady;
    EXPECT_TRUE(waitsForGate(gate, [&] { status = read(host.data(), count); }));
    EXPECT_EQ(status, orSuccess);
    EXPECT_EQ(host, Bytes(count, 0)) << "there without a synchronisation";
  }
}

TEST_F(AsyncCopyTest, PageableRowsAreWaitedForInBothDirections) {
  Bytes host(64, 1);
  for (size_t rows : {4, 1}) {
    for (bool toHost : {false, true}) {
      void* dst = array_.data();
      void* src = host.data();
      if (toHost) {
        std::swap(dst, src);
      }
      const auto kind = toHost ? orMemcpyDeviceToHost : orMemcpyHostToDevice;
      Gate gate(stream_);
      orError_t status = orErrorNotReady;
      EXPECT_TRUE(waitsForGate(
          gate,
          [&] {
            status = orMemcpy2DAsync(dst, 16, src, 16, 8, rows, kind, stream_);
          }))
          << rows << " rows of kind " << kind;
      EXPECT_EQ(status, orSuccess);
    }
  }
}

TEST_F(AsyncCopyTest, APinnedCopyDeliversWhatTheHostWroteLater) {
  const size_t count = array_.bytes();
  PinnedArray<unsigned char> pinned(count, 1);
  Gate gate(stream_);
  ASSERT_EQ(write(pinned.data(), count), orSuccess);
  std::fill_n(pinned.data(), count, 2);
  gate.open();
  EXPECT_EQ(arrived(count), Bytes(count, 2));
}

TEST_F(AsyncCopyTest, ARegisteredRangeIsPinned) {
  const size_t count = array_.bytes();
  Bytes host(count, 1);
  ASSERT_EQ(orHostRegister(host.data(), count, 0), orSuccess);
  {
    Gate gate(stream_);
    ASSERT_EQ(write(host.data(), count), orSuccess);
    host.assign(count, 2);
    gate.open();
    EXPECT_EQ(arrived(count), Bytes(count, 2));
  }
  ASSERT_EQ(orHostUnregister(host.data()), orSuccess);
}

TEST_F(AsyncCopyTest, ACopyToPinnedMemoryReturnsAtOnce) {
  const size_t count = array_.bytes();
  PinnedArray<unsigned char> pinned(count, 9);
  Gate gate(stream_);
  ASSERT_EQ(read(pinned.data(), count), orSuccess);
  EXPECT_EQ(pinned[0], 9);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(Bytes(pinned.data(), pinned.data() + count), Bytes(count, 0));
}

TEST_F(AsyncCopyTest, PinnedRowsAndCopiesInsideTheDeviceReturnAtOnce) {
  PinnedArray<unsigned char> pinned(64, 3);
  Gate gate(stream_);
  ASSERT_EQ(
      orMemcpy2DAsync(
          array_.data(),
          16,
          pinned.data(),
          8,
          8,
          4,
          orMemcpyHostToDevice,
          stream_),
      orSuccess);
  ASSERT_EQ(
      orMemcpyAsync(
          array_.data() + 100, array_.data() + 48, 8, orMemcpyDefault, stream_),
      orSuccess);
  std::fill_n(pinned.data(), 64, 4);
  gate.open();
  const Bytes bytes = arrived(108);
  EXPECT_EQ(bytes[7], 4);
  EXPECT_EQ(bytes[8], 0);
  EXPECT_EQ(bytes[48], 4) << "the last row";
  EXPECT_EQ(bytes[107], 4) << "copied on";
}

} // namespace
} // namespace openreg::testing
