// Calls that are unsafe while a stream is capturing, in every mode.
#include "graph_support.h"

#include <thread>

using namespace openreg::testing;

namespace {

class UnsafeCallTest : public CaptureConflictTest {
 protected:
  /// Makes every unsafe call during a capture, on this thread or another, and
  /// expects each to fail and to invalidate the capture, or neither.
  void expectEach(bool unsafe, orStreamCaptureMode mode, bool otherThread) {
    const DeviceArray<int> device(1000);
    std::vector<int> host(1000);
    const Event event;
    ASSERT_EQ(orEventRecord(event, other_), orSuccess);
    const auto check = [&](const char* name, auto call) {
      begin(stream_, mode);
      orError_t error = orSuccess;
      const auto make = [&] { error = call(); };
      if (otherThread) {
        std::thread(make).join();
      } else {
        make();
      }
      if (unsafe) {
        EXPECT_EQ(error, orErrorStreamCaptureUnsupported) << name;
        expectInvalidated(stream_);
      } else {
        EXPECT_EQ(error, orSuccess) << name;
        expectWhole(stream_);
      }
    };
    check("orMalloc, orFree", [] {
      void* pointer = nullptr;
      const orError_t error = orMalloc(&pointer, 4);
      return error == orSuccess ? orFree(pointer) : error;
    });
    check("orFree", [] { return orFree(nullptr); });
    check("orMallocHost, orFreeHost", [] {
      void* pointer = nullptr;
      const orError_t error = orMallocHost(&pointer, 4);
      return error == orSuccess ? orFreeHost(pointer) : error;
    });
    check("orFreeHost", [] { return orFreeHost(nullptr); });
    check("orHostRegister, orHostUnregister", [&] {
      const orError_t error = orHostRegister(host.data(), 4, 0);
      return error == orSuccess ? orHostUnregister(host.data()) : error;
    });
    check("orMemcpy", [&] {
      return orMemcpy(host.data(), device.data(), 4, orMemcpyDeviceToHost);
    });
    check("orMemset", [&] { return orMemset(device.data(), 0, 4); });
    check("orEventSynchronize", [&] { return orEventSynchronize(event); });
    check("orEventQuery", [&] { return orEventQuery(event); });
  }
};

TEST_F(UnsafeCallTest, TheModeSaysWhichThreadsMustNotMakeThem) {
  expectEach(true, orStreamCaptureModeGlobal, false);
  expectEach(true, orStreamCaptureModeGlobal, true);
  expectEach(true, orStreamCaptureModeThreadLocal, false);
  expectEach(false, orStreamCaptureModeThreadLocal, true);
  expectEach(false, orStreamCaptureModeRelaxed, false);
  expectEach(false, orStreamCaptureModeRelaxed, true);
}

TEST_F(UnsafeCallTest, AThreadMayAllowThemToItself) {
  auto mode = orStreamCaptureModeRelaxed;
  ASSERT_EQ(orThreadExchangeStreamCaptureMode(&mode), orSuccess);
  EXPECT_EQ(mode, orStreamCaptureModeGlobal);
  expectEach(false, orStreamCaptureModeGlobal, false);
  ASSERT_EQ(orThreadExchangeStreamCaptureMode(&mode), orSuccess);
  EXPECT_EQ(mode, orStreamCaptureModeRelaxed);
  expectEach(true, orStreamCaptureModeGlobal, false);
}

TEST_F(UnsafeCallTest, AThreadLocalThreadMindsItsOwnCapturesOnly) {
  begin(stream_);
  begin(other_, orStreamCaptureModeThreadLocal);
  std::thread([] {
    auto mode = orStreamCaptureModeThreadLocal;
    ASSERT_EQ(orThreadExchangeStreamCaptureMode(&mode), orSuccess);
    EXPECT_EQ(orFree(nullptr), orSuccess);
  }).join();
  EXPECT_EQ(statusOf(stream_), orStreamCaptureStatusActive);
  std::thread([] {
    EXPECT_EQ(orFree(nullptr), orErrorStreamCaptureUnsupported);
  }).join();
  expectInvalidated(stream_);
  expectWhole(other_);
}

TEST_F(UnsafeCallTest, ALaterOneFailsBecauseOfTheFirst) {
  expectInvalidates(orErrorStreamCaptureUnsupported, [] {
    const orError_t error = orFree(nullptr);
    EXPECT_EQ(orFree(nullptr), orErrorStreamCaptureInvalidated);
    return error;
  });
  EXPECT_EQ(orFree(nullptr), orSuccess);
}

} // namespace
