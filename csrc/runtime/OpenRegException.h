// How a failing libopenreg call becomes an exception or a warning. Free of c10, so
// that what needs nothing else of it can be tested under the sanitizers.
#pragma once

#include <openreg.h>

#include <cstdint>
#include <string>

namespace c10::openreg {

/// Where in the sources a call stands.
struct CallSite {
  const char* function;
  const char* file;
  uint32_t line;
};

/// Throws c10::AcceleratorError (torch.AcceleratorError in Python) with the
/// library's sentence. Out of line: it is the unlikely half of check().
[[noreturn]] void throwError(
    orError_t status,
    const char* call,
    CallSite where);

/// The same with a message of our own.
[[noreturn]] void throwError(orError_t status, const std::string& what);

/// A failed call as a warning, for destructors and noexcept code.
void warnOfError(orError_t status, const char* call) noexcept;

/// A warning that is never an exception, even if Python turns warnings into
/// errors.
void warnQuietly(const std::string& message) noexcept;

inline void check(orError_t status, const char* call, CallSite where) {
  if (status != orSuccess) [[unlikely]] {
    throwError(status, call, where);
  }
}

/// The answer of a query: orErrorNotReady means no, and any other error throws.
inline bool isReady(orError_t status, const char* call, CallSite where) {
  if (status == orErrorNotReady) {
    orGetLastError(); // an answer, not a failure
    return false;
  }
  check(status, call, where);
  return true;
}

inline void checkWarn(orError_t status, const char* call) noexcept {
  if (status != orSuccess) [[unlikely]] {
    warnOfError(status, call);
  }
}

} // namespace c10::openreg

// docs:begin openreg-check
/// Runs a libopenreg call and throws if it fails. The macro only quotes the call
/// and its place; the .cpp builds the message.
#define OPENREG_CHECK(call) \
  ::c10::openreg::check(    \
      (call), #call, {__func__, __FILE__, static_cast<uint32_t>(__LINE__)})

/// Runs a libopenreg query.
#define OPENREG_IS_READY(call) \
  ::c10::openreg::isReady(     \
      (call), #call, {__func__, __FILE__, static_cast<uint32_t>(__LINE__)})

/// Runs a libopenreg call and warns if it fails.
#define OPENREG_CHECK_WARN(call) ::c10::openreg::checkWarn((call), #call)
// docs:end openreg-check
