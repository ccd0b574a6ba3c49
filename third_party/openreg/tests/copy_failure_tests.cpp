// Copies and sets that fail for where they are called from, for how long they
// take, or for the addresses they meet.
#include "support.h"

#include <sys/mman.h>

#include <functional>

namespace openreg::testing {
namespace {

constexpr size_t kBytes = 8192;
constexpr size_t kMoreThanAQueueHolds = size_t{1} << 20;

using Bytes = std::vector<unsigned char>;
using Call = std::function<orError_t()>;
using Statuses = std::vector<orError_t>;

/// Device memory with zeros, host memory with ones, and calls to change them.
struct Buffers {
  Bytes host = Bytes(kBytes, 1);
  PinnedArray<unsigned char> pinned{kBytes, 1};
  DeviceArray<unsigned char> array{kBytes};
  orStream_t stream = defaultStream();

  Buffers() {
    EXPECT_EQ(orMemset(array.data(), 0, kBytes), orSuccess);
  }

  /// Calls that wait for the stream.
  std::vector<Call> waiting() {
    const auto kind = orMemcpyDeviceToHost;
    return {
        [this] { return orMemset(array.data(), 9, kBytes); },
        [=, this] { return orMemcpy(host.data(), array.data(), kBytes, kind); },
        [=, this] {
          return orMemcpyAsync(host.data(), array.data(), kBytes, kind, stream);
        },
        [=, this] {
          return orMemcpy2DAsync(
              host.data(), 64, array.data(), 64, 32, 4, kind, stream);
        },
    };
  }

  /// Calls that queue work and return.
  std::vector<Call> queueing() {
    const auto kind = orMemcpyDeviceToHost;
    return {
        [this] { return orMemsetAsync(array.data(), 0, 1, stream); },
        [this] {
          return orMemcpyPeerAsync(
              array.data(), 0, array.data() + 8, 0, 1, stream);
        },
        [=, this] {
          return orMemcpyAsync(pinned.data(), array.data(), 1, kind, stream);
        },
        [=, this] {
          return orMemcpy2DAsync(
              pinned.data(), 1, array.data(), 1, 1, 2, kind, stream);
        },
    };
  }
};

orError_t repeatUntilItFails(const Call& call) {
  orError_t status = orSuccess;
  for (size_t i = 0; status == orSuccess && i < kMoreThanAQueueHolds; ++i) {
    status = call();
  }
  return status;
}

struct Inside {
  std::vector<Call> calls;
  Statuses statuses;
};

void callInside(void* data) {
  auto* inside = static_cast<Inside*>(data);
  for (const Call& call : inside->calls) {
    inside->statuses.push_back(call());
  }
}

/// Makes the calls inside a kernel or a host function of `stream`, and waits
/// for what they have queued.
Statuses callIn(orStream_t stream, bool kernel, std::vector<Call> calls) {
  Inside inside{std::move(calls), {}};
  EXPECT_EQ(
      kernel ? orLaunchKernel(stream, callInside, &inside)
             : orLaunchHostFunc(stream, callInside, &inside),
      orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
  return inside.statuses;
}

TEST(NotPermittedTest, WaitingForItsOwnStreamFails) {
  for (bool kernel : {true, false}) {
    Buffers buffers;
    EXPECT_EQ(
        callIn(buffers.stream, kernel, buffers.waiting()),
        Statuses(4, orErrorNotPermitted));
    EXPECT_EQ(buffers.host, Bytes(kBytes, 1)) << "failing changes nothing";
    EXPECT_EQ(buffers.array.read(), Bytes(kBytes, 0));
  }
}

// Whether a call is permitted must not depend on what other streams do.
TEST(NotPermittedTest, ASynchronousCallFailsAlsoWhenThereIsNothingToWaitFor) {
  for (bool kernel : {true, false}) {
    Buffers buffers;
    Stream independent;
    std::vector<Call> calls = buffers.waiting();
    calls.resize(2); // orMemset() and orMemcpy()
    EXPECT_EQ(
        callIn(independent, kernel, calls), Statuses(2, orErrorNotPermitted));
    EXPECT_EQ(buffers.host, Bytes(kBytes, 1)) << "failing changes nothing";
    EXPECT_EQ(buffers.array.read(), Bytes(kBytes, 0));
  }
}

TEST(NotPermittedTest, QueueingInsideAKernelSucceedsWhileThereIsRoom) {
  Buffers buffers;
  EXPECT_EQ(
      callIn(buffers.stream, true, buffers.queueing()), Statuses(4, orSuccess));
  EXPECT_EQ(buffers.pinned[1], 0) << "the last copy came after the kernel";
}

TEST(NotPermittedTest, ASmallPageableCopyInsideAKernelIsTakenAlong) {
  Buffers buffers;
  Stream idle;
  const Call write = [&] {
    return orMemcpyAsync(
        buffers.array.data(),
        buffers.host.data(),
        kBytes,
        orMemcpyHostToDevice,
        idle);
  };
  EXPECT_EQ(callIn(buffers.stream, true, {write}), Statuses(1, orSuccess));
  EXPECT_EQ(buffers.array.read(), Bytes(kBytes, 1));
}

TEST(NotPermittedTest, QueueingInsideAKernelFailsOnceTheQueueIsFull) {
  Buffers buffers;
  std::vector<Call> fillers;
  for (const Call& call : buffers.queueing()) {
    fillers.push_back([call] { return repeatUntilItFails(call); });
  }
  EXPECT_EQ(
      callIn(buffers.stream, true, fillers), Statuses(4, orErrorNotPermitted));
}

TEST(TimeoutTest, WaitingGivesUp) {
  auto body = [] {
    setenv("OPENREG_WAIT_TIMEOUT", "0.05", 1);
    Buffers buffers;
    Gate gate(buffers.stream);
    for (const Call& call : buffers.waiting()) {
      CHILD_REQUIRE(call() == orErrorTimeout);
      CHILD_REQUIRE(detailHas("OPENREG_WAIT_TIMEOUT"));
    }
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

// The caller of a failed copy may free its buffer, so nothing may write there.
TEST(TimeoutTest, WhatWasGivenUpDoesNotHappenLater) {
  auto body = [] {
    setenv("OPENREG_WAIT_TIMEOUT", "0.05", 1);
    Buffers buffers;
    Gate gate(buffers.stream);
    for (const Call& call : buffers.waiting()) {
      CHILD_REQUIRE(call() == orErrorTimeout);
    }
    gate.open();
    while (orDeviceSynchronize() == orErrorTimeout) {
    }
    CHILD_REQUIRE(buffers.host == Bytes(kBytes, 1));
    CHILD_REQUIRE(buffers.array.read() == Bytes(kBytes, 0));
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(TimeoutTest, QueueingGivesUpWhenTheQueueStaysFull) {
  auto body = [] {
    setenv("OPENREG_WAIT_TIMEOUT", "0.05", 1);
    Buffers buffers;
    Gate gate(buffers.stream);
    for (const Call& call : buffers.queueing()) {
      CHILD_REQUIRE(repeatUntilItFails(call) == orErrorTimeout);
      CHILD_REQUIRE(detailHas("OPENREG_WAIT_TIMEOUT"));
    }
    gate.open();
    orError_t status = orErrorTimeout;
    while (status == orErrorTimeout) {
      status = orDeviceSynchronize();
    }
    return status == orSuccess;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

/// Two pages of which only the first can be used.
class HalfMapped {
 public:
  HalfMapped() : size_(2 * static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* memory = mmap(
        nullptr,
        size_,
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS,
        -1,
        0);
    EXPECT_NE(memory, MAP_FAILED);
    data_ = static_cast<unsigned char*>(memory);
    EXPECT_EQ(mprotect(data_ + size_ / 2, size_ / 2, PROT_NONE), 0);
  }
  ~HalfMapped() {
    munmap(data_, size_);
  }
  unsigned char* data() const {
    return data_;
  }
  size_t bytes() const {
    return size_;
  }

 private:
  size_t size_;
  unsigned char* data_ = nullptr;
};

/// Device memory to copy with; at the end the device is reset and must work.
class IllegalAddressTest : public ::testing::Test {
 protected:
  void SetUp() override {
    void* memory = nullptr;
    ASSERT_EQ(orMalloc(&memory, illegal_.bytes()), orSuccess);
    device_ = memory;
    ASSERT_EQ(orMemset(device_, 0, illegal_.bytes()), orSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(orDeviceSynchronize(), orErrorIllegalAddress) << "it sticks";
    void* memory = nullptr;
    EXPECT_EQ(orMalloc(&memory, 1), orErrorIllegalAddress);
    ASSERT_EQ(orDeviceReset(), orSuccess);
    DeviceArray<unsigned char> array(kBytes);
    ASSERT_EQ(orMemset(array.data(), 7, kBytes), orSuccess);
    EXPECT_EQ(array.read(), Bytes(kBytes, 7));
  }

  orError_t writeAsync() {
    return orMemcpyAsync(
        device_,
        illegal_.data(),
        illegal_.bytes(),
        orMemcpyHostToDevice,
        defaultStream());
  }
  orError_t readAsync() {
    return orMemcpyAsync(
        illegal_.data(),
        device_,
        illegal_.bytes(),
        orMemcpyDeviceToHost,
        defaultStream());
  }

  HalfMapped illegal_;
  void* device_ = nullptr;
};

TEST_F(IllegalAddressTest, ASynchronousCopyGivesTheErrorItself) {
  EXPECT_EQ(
      orMemcpy(
          device_, illegal_.data(), illegal_.bytes(), orMemcpyHostToDevice),
      orErrorIllegalAddress);
  EXPECT_TRUE(detailHas(hex(illegal_.data() + illegal_.bytes() / 2)));
}

TEST_F(IllegalAddressTest, ASynchronousCopyToTheHostGivesTheErrorItself) {
  EXPECT_EQ(
      orMemcpy(
          illegal_.data(), device_, illegal_.bytes(), orMemcpyDeviceToHost),
      orErrorIllegalAddress);
}

TEST_F(IllegalAddressTest, APageableCopyGivesTheErrorAtTheLatestWhenWaitedFor) {
  orError_t status = writeAsync();
  if (status == orSuccess) {
    status = orStreamSynchronize(defaultStream());
  }
  EXPECT_EQ(status, orErrorIllegalAddress);
}

TEST_F(IllegalAddressTest, APageableCopyToTheHostGivesTheErrorItself) {
  EXPECT_EQ(readAsync(), orErrorIllegalAddress);
}

TEST_F(IllegalAddressTest, APinnedCopyGivesTheErrorWhenWaitedFor) {
  ASSERT_EQ(orHostRegister(illegal_.data(), illegal_.bytes(), 0), orSuccess);
  {
    Gate gate(defaultStream());
    EXPECT_EQ(writeAsync(), orSuccess);
    EXPECT_EQ(readAsync(), orSuccess);
  }
  EXPECT_EQ(orStreamSynchronize(defaultStream()), orErrorIllegalAddress);
  EXPECT_EQ(orHostUnregister(illegal_.data()), orSuccess);
}

// On a busy stream the bytes are taken along, so the caller meets the address.
TEST_F(IllegalAddressTest, ACopyTakenAlongGivesTheErrorAndKeepsTheProcess) {
  Gate gate(defaultStream());
  orError_t status = writeAsync();
  gate.open();
  if (status == orSuccess) {
    status = orStreamSynchronize(defaultStream());
  }
  EXPECT_EQ(status, orErrorIllegalAddress);
}

} // namespace
} // namespace openreg::testing
