#include "runtime/OpenRegCapture.h"

namespace c10::openreg {
namespace {

orStreamCaptureStatus statusOf(
    orStream_t stream,
    unsigned long long* id) noexcept {
  auto status = orStreamCaptureStatusNone;
  if (orStreamGetCaptureInfo(stream, &status, id) != orSuccess) [[unlikely]] {
    orGetLastError(); // whoever uses the stream hears of it
    return orStreamCaptureStatusNone;
  }
  return status;
}

} // namespace

bool isCapturing(orStream_t stream) noexcept {
  return statusOf(stream, nullptr) != orStreamCaptureStatusNone;
}

uint64_t captureOf(orStream_t stream) noexcept {
  unsigned long long id = 0;
  return statusOf(stream, &id) == orStreamCaptureStatusActive ? id : 0;
}

} // namespace c10::openreg
