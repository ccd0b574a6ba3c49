#include "error.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <utility>

namespace openreg {
namespace {

struct Text {
  orError_t code;
  const char* name;
  const char* string;
};

#define OPENREG_TEXT(code, string) {code, #code, string}
constexpr Text kTexts[] = {
    OPENREG_TEXT(orSuccess, "no error"),
    OPENREG_TEXT(orErrorInvalidValue, "invalid argument"),
    OPENREG_TEXT(orErrorMemoryAllocation, "out of memory"),
    OPENREG_TEXT(orErrorInitializationError, "initialization error"),
    OPENREG_TEXT(orErrorRuntimeUnloading, "runtime shutting down"),
    OPENREG_TEXT(orErrorInvalidConfiguration, "invalid configuration"),
    OPENREG_TEXT(orErrorInvalidPitchValue, "invalid pitch argument"),
    OPENREG_TEXT(orErrorInvalidDevicePointer, "invalid device pointer"),
    OPENREG_TEXT(orErrorInvalidMemcpyDirection, "invalid copy direction"),
    OPENREG_TEXT(orErrorDeviceLost, "the device is lost"),
    OPENREG_TEXT(orErrorNoDevice, "no openreg device is visible"),
    OPENREG_TEXT(orErrorInvalidDevice, "invalid device ordinal"),
    OPENREG_TEXT(orErrorDeviceUninitialized, "invalid device context"),
    OPENREG_TEXT(
        orErrorMapBufferObjectFailed,
        "mapping of buffer object failed"),
    OPENREG_TEXT(orErrorPeerAccessUnsupported, "peer access is not supported"),
    OPENREG_TEXT(
        orErrorOperatingSystem,
        "OS call failed or operation not supported on this OS"),
    OPENREG_TEXT(orErrorInvalidHandle, "invalid resource handle"),
    OPENREG_TEXT(
        orErrorIllegalState,
        "the operation cannot be performed in the present state"),
    OPENREG_TEXT(orErrorNotReady, "device not ready"),
    OPENREG_TEXT(
        orErrorIllegalAddress,
        "an illegal memory access was encountered"),
    OPENREG_TEXT(
        orErrorPeerAccessAlreadyEnabled,
        "peer access is already enabled"),
    OPENREG_TEXT(
        orErrorPeerAccessNotEnabled,
        "peer access has not been enabled"),
    OPENREG_TEXT(orErrorAssert, "device-side assert triggered"),
    OPENREG_TEXT(
        orErrorHostMemoryAlreadyRegistered,
        "part or all of the memory is already pinned"),
    OPENREG_TEXT(
        orErrorHostMemoryNotRegistered,
        "the memory has not been registered"),
    OPENREG_TEXT(orErrorLaunchFailure, "unspecified launch failure"),
    OPENREG_TEXT(orErrorNotPermitted, "operation not permitted"),
    OPENREG_TEXT(orErrorCommunication, "communication with others failed"),
    OPENREG_TEXT(
        orErrorStreamCaptureUnsupported,
        "operation not permitted when stream is capturing"),
    OPENREG_TEXT(
        orErrorStreamCaptureInvalidated,
        "operation failed due to a previous error during capture"),
    OPENREG_TEXT(
        orErrorStreamCaptureMerge,
        "operation would result in a merge of separate capture sequences"),
    OPENREG_TEXT(
        orErrorStreamCaptureUnmatched,
        "capture was not ended in the same stream as it began"),
    OPENREG_TEXT(
        orErrorStreamCaptureUnjoined,
        "capturing stream has unjoined work"),
    OPENREG_TEXT(
        orErrorStreamCaptureIsolation,
        "dependency created on uncaptured work in another stream"),
    OPENREG_TEXT(
        orErrorStreamCaptureImplicit,
        "operation would make the legacy stream depend on a capturing blocking "
        "stream"),
    OPENREG_TEXT(
        orErrorCapturedEvent,
        "operation not permitted on an event last recorded in a capturing "
        "stream"),
    OPENREG_TEXT(
        orErrorStreamCaptureWrongThread,
        "attempt to terminate a thread-local capture sequence from another "
        "thread"),
    OPENREG_TEXT(orErrorTimeout, "wait operation timed out"),
    OPENREG_TEXT(
        orErrorGraphExecUpdateFailure,
        "the graph update was not performed because it included changes which "
        "violated constraints specific to instantiated graph update"),
};
#undef OPENREG_TEXT

constexpr Text kUnrecognized{
    orSuccess,
    "unrecognized error code",
    "unrecognized error code"};

const Text& textOf(orError_t code) {
  const auto* text = std::find_if(
      std::begin(kTexts), std::end(kTexts), [code](const Text& candidate) {
        return candidate.code == code;
      });
  return text == std::end(kTexts) ? kUnrecognized : *text;
}

struct LastError {
  orError_t code = orSuccess;
  const char* unwritten = nullptr; // what `detail` is to be made of, or nullptr
  unsigned long long stream = 0;
  char detail[512] = "";
};

thread_local LastError lastError;

} // namespace

orError_t fail(orError_t code, const char* format, ...) {
  LastError& error = lastError;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error.detail, sizeof(error.detail), format, arguments);
  va_end(arguments);
  error.unwritten = nullptr;
  return error.code = code;
}

orError_t notReady(const char* format, unsigned long long stream) {
  LastError& error = lastError;
  error.unwritten = format;
  error.stream = stream;
  return error.code = orErrorNotReady;
}

orError_t failWith(orError_t code, const std::string& detail) {
  return fail(code, "%s", detail.c_str());
}

bool isErrorCode(orError_t code) {
  return &textOf(code) != &kUnrecognized;
}

} // namespace openreg

orError_t orGetLastError(void) {
  openreg::LastError& error = openreg::lastError;
  error.detail[0] = '\0';
  error.unwritten = nullptr;
  return std::exchange(error.code, orSuccess);
}

orError_t orPeekAtLastError(void) {
  return openreg::lastError.code;
}

const char* orGetLastErrorDetail(void) {
  openreg::LastError& error = openreg::lastError;
  if (const char* const format = std::exchange(error.unwritten, nullptr)) {
    std::snprintf(error.detail, sizeof(error.detail), format, error.stream);
  }
  return error.detail;
}

const char* orGetErrorName(orError_t error) {
  return openreg::textOf(error).name;
}

const char* orGetErrorString(orError_t error) {
  return openreg::textOf(error).string;
}
