// What a failing kernel does to its device.
#include "support.h"

#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>

namespace openreg::testing {
namespace {

const orLaunchConfig kBad{"bad_kernel", orLaunchDefault};

void throwReason() {
  throw std::runtime_error("the reason");
}

// Mends what the test breaks.
class FailureTest : public ::testing::Test {
 protected:
  void TearDown() override {
    ASSERT_EQ(orSetDevice(0), orSuccess);
    ASSERT_EQ(orDeviceReset(), orSuccess);
    ASSERT_EQ(orLaunchKernel(defaultStream(), [] {}), orSuccess);
    ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  }

  void breakDevice() {
    ASSERT_EQ(orLaunchKernelEx(&kBad, stream_, throwReason), orSuccess);
    ASSERT_EQ(orDeviceSynchronize(), orErrorLaunchFailure);
  }

  Stream stream_;
};

TEST_F(FailureTest, AnExceptionBreaksTheDeviceWithItsTextAndTheKernelsName) {
  ASSERT_EQ(orLaunchKernelEx(&kBad, stream_, throwReason), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream_), orErrorLaunchFailure);
  EXPECT_TRUE(detailHas("the reason"));
  EXPECT_TRUE(detailHas("bad_kernel"));
}

TEST_F(FailureTest, AnExceptionNeedNotBeAStandardOne) {
  ASSERT_EQ(orLaunchKernelEx(&kBad, stream_, [] { throw 7; }), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream_), orErrorLaunchFailure);
  EXPECT_TRUE(detailHas("bad_kernel"));
}

TEST_F(FailureTest, AFailedAssertionKeepsItsCodeAndSentence) {
  auto fail = [] { orKernelFail(orErrorAssert, "9 is not in [0, 3)"); };
  ASSERT_EQ(orLaunchKernelEx(&kBad, stream_, fail), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream_), orErrorAssert);
  EXPECT_TRUE(detailHas("9 is not in [0, 3)"));
  EXPECT_TRUE(detailHas("bad_kernel"));
}

TEST_F(FailureTest, AFailureOfOthersIsToldOnceAndLeavesTheDeviceUsable) {
  auto fail = [] { orKernelFail(orErrorCommunication, "rank 2 has ended"); };
  ASSERT_EQ(orLaunchKernelEx(&kBad, stream_, fail), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream_), orErrorCommunication);
  EXPECT_TRUE(detailHas("rank 2 has ended"));
  EXPECT_EQ(orStreamSynchronize(stream_), orSuccess);
  // It does not hide one that breaks the device.
  ASSERT_EQ(orLaunchKernelEx(&kBad, stream_, fail), orSuccess);
  ASSERT_EQ(orLaunchKernelEx(&kBad, stream_, throwReason), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream_), orErrorLaunchFailure);
}

TEST_F(FailureTest, TheDeviceAddressIsAnIllegalAddressForKernels) {
  DeviceArray<int> array(4);
  volatile int* const device = array.data();
  for (bool write : {true, false}) {
    Stream stream;
    std::atomic<bool> survived = false;
    auto touch = [device, write, &survived] {
      if (write) {
        *device = 1;
      } else {
        (void)*device;
      }
      survived = true;
    };
    ASSERT_EQ(orLaunchKernelEx(&kBad, stream, touch), orSuccess);
    EXPECT_EQ(orStreamSynchronize(stream), orErrorIllegalAddress);
    EXPECT_TRUE(detailHas("bad_kernel"));
    EXPECT_FALSE(survived);
    ASSERT_EQ(orDeviceReset(), orSuccess);
  }
}

TEST_F(FailureTest, SmallWorkThatFailsBreaksTheDeviceToo) {
  const orLaunchConfig small{"bad_small", orLaunchSmall};
  orLaunchKernelEx(&small, stream_, throwReason);
  EXPECT_EQ(orStreamSynchronize(stream_), orErrorLaunchFailure);
  EXPECT_TRUE(detailHas("the reason"));
  EXPECT_TRUE(detailHas("bad_small"));
}

TEST_F(FailureTest, EveryCallThatUsesTheDeviceTellsTheOriginalError) {
  Event event(orEventEnableTiming);
  DeviceArray<char> array(16);
  PinnedArray<char> pinned(16, 0);
  orStream_t newStream = nullptr;
  orEvent_t newEvent = nullptr;
  void* memory = nullptr;
  size_t bytes = 0;
  auto nothing = [](void*) {};
  char* const d = array.data();
  char* const h = pinned.data();
  ASSERT_EQ(orEventRecord(event, stream_), orSuccess);
  breakDevice();

  const std::pair<const char*, std::function<orError_t()>> calls[] = {
      {"device synchronize", [&] { return orDeviceSynchronize(); }},
      {"stream synchronize", [&] { return orStreamSynchronize(stream_); }},
      {"default", [&] { return orStreamSynchronize(defaultStream()); }},
      {"event synchronize", [&] { return orEventSynchronize(event); }},
      {"query", [&] { return orStreamQuery(stream_); }},
      {"create", [&] { return orStreamCreate(&newStream); }},
      {"flags", [&] { return orStreamCreateWithFlags(&newStream, 0); }},
      {"priority",
       [&] { return orStreamCreateWithPriority(&newStream, 0, 0); }},
      {"wait", [&] { return orStreamWaitEvent(stream_, event, 0); }},
      {"event", [&] { return orEventCreate(&newEvent); }},
      {"event flags", [&] { return orEventCreateWithFlags(&newEvent, 0); }},
      {"record", [&] { return orEventRecord(event, stream_); }},
      {"launch", [&] { return orLaunchKernel(stream_, [] {}); }},
      {"launch C",
       [&] { return orLaunchKernelC(stream_, nothing, nullptr, 0); }},
      {"host", [&] { return orLaunchHostFunc(stream_, nothing, nullptr); }},
      {"malloc", [&] { return orMalloc(&memory, 16); }},
      {"free", [&] { return orFree(d); }},
      {"memory", [&] { return orMemGetInfo(&bytes, nullptr); }},
      {"copy", [&] { return orMemcpy(d, h, 16, orMemcpyHostToDevice); }},
      {"async",
       [&] { return orMemcpyAsync(d, h, 16, orMemcpyDefault, stream_); }},
      {"peer", [&] { return orMemcpyPeerAsync(d, 0, d, 0, 16, stream_); }},
      {"2D",
       [&] {
         return orMemcpy2DAsync(
             d, 4, h, 4, 4, 4, orMemcpyHostToDevice, stream_);
       }},
      {"set", [&] { return orMemset(d, 0, 16); }},
      {"set async", [&] { return orMemsetAsync(d, 0, 16, stream_); }},
  };
  for (const auto& [name, call] : calls) {
    orGetLastError();
    EXPECT_EQ(call(), orErrorLaunchFailure) << name;
    EXPECT_EQ(orPeekAtLastError(), orErrorLaunchFailure) << name;
    EXPECT_TRUE(detailHas("the reason")) << name;
    EXPECT_TRUE(detailHas("bad_kernel")) << name;
  }
  EXPECT_EQ(newStream, nullptr);
  EXPECT_EQ(newEvent, nullptr);
  EXPECT_EQ(memory, nullptr);
}

TEST_F(FailureTest, ArgumentsAreCheckedOnABrokenDeviceToo) {
  breakDevice();
  EXPECT_EQ(orStreamCreate(nullptr), orErrorInvalidValue);
  EXPECT_EQ(orStreamQuery(nullptr), orErrorInvalidHandle);
  EXPECT_EQ(orEventRecord(nullptr, stream_), orErrorInvalidHandle);
  EXPECT_EQ(orLaunchHostFunc(stream_, nullptr, nullptr), orErrorInvalidValue);
}

TEST_F(FailureTest, WhatCleanUpNeedsStillWorks) {
  orStream_t stream = nullptr;
  orEvent_t before = nullptr, after = nullptr;
  ASSERT_EQ(orStreamCreate(&stream), orSuccess);
  ASSERT_EQ(orEventCreateWithFlags(&before, 0), orSuccess);
  ASSERT_EQ(orEventCreateWithFlags(&after, 0), orSuccess);
  PinnedArray<char> pinned(16, 0);
  ASSERT_EQ(orEventRecord(before, stream_), orSuccess);
  {
    Gate gate(stream_);
    ASSERT_EQ(orLaunchKernelEx(&kBad, stream_, throwReason), orSuccess);
    ASSERT_EQ(orLaunchKernel(stream_, [] {}), orSuccess);
    ASSERT_EQ(orEventRecord(after, stream_), orSuccess);
  }
  ASSERT_EQ(orDeviceSynchronize(), orErrorLaunchFailure);
  while (orEventQuery(after) == orErrorNotReady) {
    std::this_thread::yield();
  }
  EXPECT_EQ(orEventQuery(before), orSuccess);
  EXPECT_EQ(orEventQuery(after), orSuccess);
  int device = -1;
  EXPECT_EQ(orStreamGetDevice(stream, &device), orSuccess);
  EXPECT_EQ(orEventDestroy(before), orSuccess);
  EXPECT_EQ(orEventDestroy(after), orSuccess);
  EXPECT_EQ(orStreamDestroy(stream), orSuccess);
}

TEST_F(FailureTest, ClearingTheThreadsErrorDoesNotMendTheDevice) {
  breakDevice();
  EXPECT_EQ(orGetLastError(), orErrorLaunchFailure);
  EXPECT_EQ(orGetLastError(), orSuccess);
  EXPECT_EQ(orDeviceSynchronize(), orErrorLaunchFailure);
  std::thread([] {
    EXPECT_EQ(orGetLastError(), orSuccess);
    EXPECT_EQ(orDeviceSynchronize(), orErrorLaunchFailure);
    EXPECT_TRUE(detailHas("the reason"));
  }).join();
}

TEST_F(FailureTest, AResetMendsTheDevice) {
  breakDevice();
  ASSERT_EQ(orDeviceReset(), orSuccess);
  EXPECT_EQ(orStreamQuery(stream_), orSuccess);
  bool ran = false;
  ASSERT_EQ(orLaunchKernel(defaultStream(), [&ran] { ran = true; }), orSuccess);
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_TRUE(ran);
}

TEST_F(FailureTest, TheFirstOfTwoErrorsStays) {
  {
    Gate gate(stream_);
    ASSERT_EQ(orLaunchKernelEx(&kBad, stream_, throwReason), orSuccess);
    auto fail = [] { orKernelFail(orErrorAssert, "the second"); };
    ASSERT_EQ(orLaunchKernel(stream_, fail), orSuccess);
  }
  EXPECT_EQ(orStreamSynchronize(stream_), orErrorLaunchFailure);
  EXPECT_TRUE(detailHas("the reason"));
}

TEST_F(FailureTest, WorkQueuedBehindItIsDroppedInEveryStreamOfTheDevice) {
  Stream other;
  std::atomic<int> ran = 0;
  Gate gate(other);
  ASSERT_EQ(orLaunchKernel(other, [&ran] { ++ran; }), orSuccess);
  Gate own(stream_);
  ASSERT_EQ(orLaunchKernelEx(&kBad, stream_, throwReason), orSuccess);
  ASSERT_EQ(orLaunchKernel(stream_, [&ran] { ++ran; }), orSuccess);
  own.open();
  ASSERT_EQ(orStreamSynchronize(stream_), orErrorLaunchFailure);
  gate.open();
  ASSERT_EQ(orDeviceReset(), orSuccess);
  EXPECT_EQ(ran, 0);
}

TEST_F(FailureTest, OtherDevicesAreUnaffected) {
  Event event;
  {
    Gate gate(stream_);
    ASSERT_EQ(orLaunchKernelEx(&kBad, stream_, throwReason), orSuccess);
    ASSERT_EQ(orEventRecord(event, stream_), orSuccess);
    ASSERT_EQ(orStreamWaitEvent(defaultStream(1), event, 0), orSuccess);
  }
  ASSERT_EQ(orSetDevice(1), orSuccess);
  int ran = 0;
  ASSERT_EQ(orLaunchKernel(defaultStream(1), [&ran] { ++ran; }), orSuccess);
  EXPECT_EQ(orStreamSynchronize(defaultStream(1)), orSuccess);
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(ran, 1);
  DeviceArray<int> array(1);
  EXPECT_EQ(orMemset(array.data(), 1, 4), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream_), orErrorLaunchFailure);
}

TEST(FailureModeTest, RaiseTellsTheErrorOnceAndTheDeviceGoesOn) {
  auto body = [] {
    setenv("OPENREG_DEVICE_ASSERT", "raise", 1);
    Stream stream;
    DeviceArray<int> array(1);
    auto fail = [] { orKernelFail(orErrorAssert, "9 is not in [0, 3)"); };
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(orLaunchKernelEx(&kBad, stream, fail), orSuccess);
      EXPECT_EQ(orStreamSynchronize(stream), orErrorAssert);
      EXPECT_TRUE(detailHas("9 is not in [0, 3)"));
      EXPECT_TRUE(detailHas("bad_kernel"));
      EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
      int* const kernel = array.kernel();
      auto store = [kernel, i] { *kernel = i; };
      EXPECT_EQ(orLaunchKernel(stream, store), orSuccess);
      EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
      EXPECT_EQ(array.read()[0], i);
    }
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(FailureModeTest, LaunchBlockingReturnsTheErrorFromTheLaunchItself) {
  auto body = [] {
    setenv("OPENREG_LAUNCH_BLOCKING", "1", 1);
    Stream stream;
    bool ran = false;
    EXPECT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
    EXPECT_TRUE(ran);
    EXPECT_EQ(
        orLaunchKernelEx(&kBad, stream, throwReason), orErrorLaunchFailure);
    EXPECT_TRUE(detailHas("the reason"));
    EXPECT_TRUE(detailHas("bad_kernel"));
    EXPECT_EQ(orDeviceReset(), orSuccess);
    auto fail = [](void*) { orKernelFail(orErrorAssert, "C"); };
    EXPECT_EQ(
        orLaunchKernelC(defaultStream(), fail, nullptr, 0), orErrorAssert);
    EXPECT_EQ(orDeviceReset(), orSuccess);
    EXPECT_EQ(orLaunchHostFunc(defaultStream(), fail, nullptr), orErrorAssert);
    EXPECT_EQ(orDeviceReset(), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

std::string nameOf(orStream_t stream) {
  unsigned long long id = 0;
  EXPECT_EQ(orStreamGetId(stream, &id), orSuccess);
  return "stream " + std::to_string(id);
}

// For streams whose wait may time out.
void pollUntilIdle(orStream_t stream) {
  while (orStreamQuery(stream) == orErrorNotReady) {
    std::this_thread::yield();
  }
  EXPECT_EQ(orStreamQuery(stream), orSuccess);
}

TEST(WaitTimeoutTest, SaysWhichStreamRunsWhatOrWaitsForWhom) {
  auto body = [] {
    setenv("OPENREG_WAIT_TIMEOUT", "0.05", 1);
    Stream stuck, waiting;
    Event event;
    std::promise<void> promise;
    std::atomic<bool> started = false;
    const orLaunchConfig named{"stuck_kernel", orLaunchDefault};
    auto wait = [&started, open = promise.get_future().share()] {
      started = true;
      open.wait();
    };
    EXPECT_EQ(orLaunchKernelEx(&named, stuck, wait), orSuccess);
    EXPECT_EQ(orEventRecord(event, stuck), orSuccess);
    EXPECT_EQ(orStreamWaitEvent(waiting, event, 0), orSuccess);
    while (!started) {
      EXPECT_EQ(orStreamQuery(stuck), orErrorNotReady);
      std::this_thread::yield();
    }
    EXPECT_EQ(orStreamSynchronize(stuck), orErrorTimeout);
    EXPECT_TRUE(detailHas(nameOf(stuck)));
    EXPECT_TRUE(detailHas("stuck_kernel"));
    // The first try may be over before the worker has begun to wait.
    int tries = 100;
    do {
      EXPECT_EQ(orStreamSynchronize(waiting), orErrorTimeout);
      EXPECT_TRUE(detailHas(nameOf(waiting)));
    } while (!detailHas(nameOf(stuck)) && --tries > 0);
    EXPECT_GT(tries, 0) << lastDetail();
    EXPECT_TRUE(detailHas("stuck_kernel"));
    EXPECT_EQ(orEventSynchronize(event), orErrorTimeout);
    EXPECT_TRUE(detailHas("stuck_kernel"));
    EXPECT_EQ(orDeviceSynchronize(), orErrorTimeout);

    promise.set_value();
    pollUntilIdle(stuck);
    pollUntilIdle(waiting);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(WaitTimeoutTest, EndsCallsThatWaitForRoomInTheQueue) {
  auto body = [] {
    setenv("OPENREG_WAIT_TIMEOUT", "0.05", 1);
    Stream stream, other;
    Event timed(orEventEnableTiming), pending;
    auto nothing = [](void*) {};
    Gate gate(stream), otherGate(other);
    EXPECT_EQ(orEventRecord(pending, other), orSuccess);
    EXPECT_EQ(fillQueue(stream), orErrorTimeout);
    EXPECT_TRUE(detailHas(nameOf(stream)));
    EXPECT_EQ(orLaunchKernelC(stream, nothing, nullptr, 0), orErrorTimeout);
    EXPECT_EQ(orLaunchHostFunc(stream, nothing, nullptr), orErrorTimeout);
    EXPECT_EQ(orEventRecord(timed, stream), orErrorTimeout);
    EXPECT_EQ(orStreamWaitEvent(stream, pending, 0), orErrorTimeout);
    otherGate.open();
    gate.open();
    pollUntilIdle(stream);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

} // namespace
} // namespace openreg::testing
