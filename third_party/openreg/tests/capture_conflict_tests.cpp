// Calls that conflict with a capture: the code, and what becomes of the capture.
#include "graph_support.h"

#include <thread>

using namespace openreg::testing;

namespace {

constexpr orStreamCaptureMode kModes[] = {
    orStreamCaptureModeGlobal,
    orStreamCaptureModeThreadLocal,
    orStreamCaptureModeRelaxed};

// --- waiting for what does not run ----------------------------------------------

TEST_F(CaptureConflictTest, ACapturingStreamCannotBeWaitedFor) {
  for (const auto mode : kModes) {
    expectInvalidates(
        orErrorStreamCaptureUnsupported,
        [&] { return orStreamSynchronize(stream_); },
        mode);
    expectInvalidates(
        orErrorStreamCaptureUnsupported,
        [&] { return orStreamQuery(stream_); },
        mode);
  }
}

TEST_F(CaptureConflictTest, NorCanItsDevice) {
  for (const auto mode : kModes) {
    expectInvalidates(
        orErrorStreamCaptureUnsupported,
        [] { return orDeviceSynchronize(); },
        mode);
  }
  begin(stream_);
  ASSERT_EQ(orSetDevice(1), orSuccess);
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
  ASSERT_EQ(orSetDevice(0), orSuccess);
  expectWhole(stream_);
}

TEST_F(CaptureConflictTest, AStreamThatTakesPartInvalidatesTheWholeCapture) {
  begin(stream_);
  order(stream_, other_);
  EXPECT_EQ(orStreamSynchronize(other_), orErrorStreamCaptureUnsupported);
  EXPECT_EQ(statusOf(other_), orStreamCaptureStatusInvalidated);
  EXPECT_EQ(orLaunchKernel(other_, [] {}), orErrorStreamCaptureInvalidated);
  expectInvalidated(stream_);
  EXPECT_EQ(orStreamSynchronize(other_), orSuccess);
}

TEST_F(CaptureConflictTest, WorkThatIsWaitedForCannotBeRecorded) {
  for (const unsigned flags : {orLaunchHere, orLaunchWait}) {
    bool ran = false;
    const orLaunchConfig config{"awaited", flags};
    expectInvalidates(orErrorStreamCaptureUnsupported, [&] {
      return orLaunchKernelEx(&config, stream_, [&ran] { ran = true; });
    });
    EXPECT_FALSE(ran);
  }
}

TEST_F(CaptureConflictTest, ATriedLaunchIsNotReadyAndInvalidatesNothing) {
  begin(stream_);
  const orLaunchConfig config{"tried", orLaunchTry};
  EXPECT_EQ(orLaunchKernelEx(&config, stream_, [] {}), orErrorNotReady);
  EXPECT_TRUE(detailHas("is capturing"));
  expectWhole(stream_);
  expectInvalidates(orErrorStreamCaptureUnsupported, [&] {
    const orError_t error = orStreamQuery(stream_);
    EXPECT_EQ(
        orLaunchKernelEx(&config, stream_, [] {}),
        orErrorStreamCaptureInvalidated);
    return error;
  });
}

TEST_F(CaptureConflictTest, PageableCopiesCannotBeRecorded) {
  const DeviceArray<int> device(1000);
  std::vector<int> host(1000);
  for (const auto mode : kModes) {
    expectInvalidates(
        orErrorStreamCaptureUnsupported,
        [&] {
          return orMemcpyAsync(
              device.data(), host.data(), 4, orMemcpyHostToDevice, stream_);
        },
        mode);
    expectInvalidates(
        orErrorStreamCaptureUnsupported,
        [&] {
          return orMemcpyAsync(
              host.data(),
              device.data(),
              device.bytes(),
              orMemcpyDeviceToHost,
              stream_);
        },
        mode);
  }
}

TEST_F(CaptureConflictTest, ArgumentsThatAreWrongAnywayInvalidateNothing) {
  begin(stream_);
  EXPECT_EQ(orMemsetAsync(nullptr, 0, 1, stream_), orErrorInvalidValue);
  EXPECT_EQ(orStreamWaitEvent(stream_, nullptr, 0), orErrorInvalidHandle);
  EXPECT_EQ(orLaunchHostFunc(stream_, nullptr, nullptr), orErrorInvalidValue);
  expectWhole(stream_);
}

// --- events -----------------------------------------------------------------------

TEST_F(CaptureConflictTest, ACapturedEventStandsForNothingThatRuns) {
  const Event event;
  expectInvalidates(orErrorCapturedEvent, [&] {
    EXPECT_EQ(orEventRecord(event, stream_), orSuccess);
    return orEventQuery(event);
  });
  expectInvalidates(orErrorCapturedEvent, [&] {
    EXPECT_EQ(orEventRecord(event, stream_), orSuccess);
    return orEventSynchronize(event);
  });
  const Event timed(orEventEnableTiming);
  expectInvalidates(orErrorCapturedEvent, [&] {
    EXPECT_EQ(orEventRecord(timed, stream_), orSuccess);
    float milliseconds = 0;
    return orEventElapsedTime(&milliseconds, timed, timed);
  });
}

TEST_F(CaptureConflictTest, AfterTheCaptureItsEventsAreInvalid) {
  const Event event(orEventEnableTiming);
  {
    const Graph graph = captured(
        stream_, [&] { ASSERT_EQ(orEventRecord(event, stream_), orSuccess); });
  }
  float milliseconds = 0;
  EXPECT_EQ(orEventQuery(event), orErrorInvalidValue);
  EXPECT_EQ(orEventSynchronize(event), orErrorInvalidValue);
  EXPECT_EQ(
      orEventElapsedTime(&milliseconds, event, event), orErrorInvalidValue);
  EXPECT_EQ(orStreamWaitEvent(stream_, event, 0), orErrorInvalidValue);
  EXPECT_EQ(statusOf(stream_), orStreamCaptureStatusNone);
  // The next record makes it an event as before.
  ASSERT_EQ(orEventRecord(event, stream_), orSuccess);
  EXPECT_EQ(orEventSynchronize(event), orSuccess);
  EXPECT_EQ(orEventElapsedTime(&milliseconds, event, event), orSuccess);
}

TEST_F(CaptureConflictTest, ACaptureCannotWaitForWorkOutside) {
  const Event event;
  ASSERT_EQ(orEventRecord(event, other_), orSuccess);
  expectInvalidates(orErrorStreamCaptureIsolation, [&] {
    return orStreamWaitEvent(stream_, event, 0);
  });
  const Event never;
  expectHarmless([&] { return orStreamWaitEvent(stream_, never, 0); });
}

TEST_F(CaptureConflictTest, NorForAnEndedCapture) {
  const Event event;
  {
    const Graph graph = captured(
        stream_, [&] { ASSERT_EQ(orEventRecord(event, stream_), orSuccess); });
  }
  expectInvalidates(orErrorStreamCaptureIsolation, [&] {
    return orStreamWaitEvent(stream_, event, 0);
  });
}

TEST_F(CaptureConflictTest, CapturesDoNotMerge) {
  begin(stream_);
  begin(other_);
  const Event event;
  ASSERT_EQ(orEventRecord(event, other_), orSuccess);
  EXPECT_EQ(orStreamWaitEvent(stream_, event, 0), orErrorStreamCaptureMerge);
  expectInvalidated(stream_);
  expectInvalidated(other_);
}

TEST_F(CaptureConflictTest, TheDefaultStreamCannotTakePart) {
  const Event event;
  expectInvalidates(orErrorStreamCaptureImplicit, [&] {
    EXPECT_EQ(orEventRecord(event, stream_), orSuccess);
    return orStreamWaitEvent(defaultStream(), event, 0);
  });
}

TEST_F(CaptureConflictTest, AnEventOfAnInvalidatedCaptureTakesNobodyIn) {
  const Event event;
  expectInvalidates(orErrorStreamCaptureUnsupported, [&] {
    EXPECT_EQ(orEventRecord(event, stream_), orSuccess);
    const orError_t error = orStreamQuery(stream_);
    EXPECT_EQ(
        orStreamWaitEvent(other_, event, 0), orErrorStreamCaptureInvalidated);
    EXPECT_EQ(orEventRecord(event, stream_), orErrorStreamCaptureInvalidated);
    EXPECT_EQ(orEventQuery(event), orErrorStreamCaptureInvalidated);
    EXPECT_EQ(orStreamQuery(stream_), orErrorStreamCaptureInvalidated);
    EXPECT_EQ(orDeviceSynchronize(), orErrorStreamCaptureInvalidated);
    return error;
  });
}

// --- the default stream -------------------------------------------------------------

TEST_F(CaptureConflictTest, TheDefaultStreamCannotFollowABlockingCapture) {
  const Stream blocking(orStreamDefault);
  const Event event;
  const auto uses = {
      std::function<orError_t()>(
          [] { return orLaunchKernel(defaultStream(), [] {}); }),
      std::function<orError_t()>(
          [] { return orStreamSynchronize(defaultStream()); }),
      std::function<orError_t()>([] { return orStreamQuery(defaultStream()); }),
      std::function<orError_t()>(
          [&] { return orEventRecord(event, defaultStream()); })};
  for (const auto& use : uses) {
    begin(blocking, orStreamCaptureModeRelaxed);
    orStreamCaptureStatus status{};
    EXPECT_EQ(
        orStreamIsCapturing(defaultStream(), &status),
        orErrorStreamCaptureImplicit);
    EXPECT_EQ(statusOf(blocking), orStreamCaptureStatusActive);
    EXPECT_EQ(use(), orErrorStreamCaptureImplicit) << lastDetail();
    orGraph_t graph = nullptr;
    EXPECT_EQ(
        orStreamEndCapture(blocking, &graph), orErrorStreamCaptureInvalidated);
    EXPECT_EQ(use(), orSuccess);
  }
}

// --- wherever it fails, the next capture is right ---------------------------------------

TEST_F(CaptureConflictTest, AFailureAfterAnyNodeLeavesTheNextCaptureWhole) {
  constexpr int kNodes = 8;
  auto token = std::make_shared<int>();
  for (int failing = 0; failing <= kNodes; ++failing) {
    begin(stream_);
    order(stream_, other_);
    for (int i = 0; i < failing; ++i) {
      const orStream_t where = i % 2 ? other_ : stream_;
      order(i % 2 ? stream_ : other_, where);
      ASSERT_EQ(orLaunchKernel(where, [token] { ++*token; }), orSuccess);
    }
    EXPECT_EQ(orStreamQuery(stream_), orErrorStreamCaptureUnsupported);
    expectInvalidated(stream_);
    EXPECT_EQ(token.use_count(), 1);
    *token = 0;
    const Graph graph = captured(stream_, [&] {
      for (int i = 0; i < kNodes; ++i) {
        ASSERT_EQ(orLaunchKernel(stream_, [token] { ++*token; }), orSuccess);
      }
    });
    const Exec exec(graph);
    ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
    ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
    EXPECT_EQ(*token, kNodes);
  }
}

// --- the end of a device ------------------------------------------------------------------

TEST_F(CaptureConflictTest, AResetInvalidatesCapturesAndKeepsGraphs) {
  bool ran = false;
  const Graph graph = captured(stream_, [&] {
    ASSERT_EQ(orLaunchKernel(stream_, [&ran] { ran = true; }), orSuccess);
  });
  const Exec exec(graph);
  begin(stream_, orStreamCaptureModeRelaxed);
  ASSERT_EQ(orDeviceReset(), orSuccess);
  expectInvalidated(stream_);
  ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_TRUE(ran);
}

TEST_F(CaptureConflictTest, AResetDeviceInvalidatesCapturesThatItTakesPartIn) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  const Stream far;
  ASSERT_EQ(orSetDevice(0), orSuccess);
  begin(stream_);
  order(stream_, far);
  ASSERT_EQ(orSetDevice(1), orSuccess);
  ASSERT_EQ(orDeviceReset(), orSuccess);
  ASSERT_EQ(orSetDevice(0), orSuccess);
  expectInvalidated(stream_);
}

} // namespace
