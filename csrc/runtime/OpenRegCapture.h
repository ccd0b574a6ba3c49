// Streams whose work is recorded into a graph. Free of c10, as its callers are.
//
// Threads: any; RelaxedCapture is for the thread that makes it.
#pragma once

#include "runtime/OpenRegException.h"

#include <cstdint>

namespace c10::openreg {

/// Whether the work of a stream is recorded and not run. Also true for a capture that
/// was invalidated and has not ended yet: the next call in it reports that.
bool isCapturing(orStream_t stream) noexcept;

/// The number of the capture that a stream takes part in; 0 if there is none, or only
/// an invalidated one.
uint64_t captureOf(orStream_t stream) noexcept;

/// While it lives, the calling thread may do what captures forbid, such as allocating
/// memory: for code that does not disturb the captured work.
class [[nodiscard]] RelaxedCapture {
 public:
  RelaxedCapture() noexcept {
    OPENREG_CHECK_WARN(orThreadExchangeStreamCaptureMode(&mode_));
  }
  ~RelaxedCapture() {
    OPENREG_CHECK_WARN(orThreadExchangeStreamCaptureMode(&mode_));
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  orStreamCaptureMode mode_ = orStreamCaptureModeRelaxed; // then the one before
};

} // namespace c10::openreg
