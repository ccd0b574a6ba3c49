// OpenRegException.h without c10: an exception of the tests' own.
#include "exception.h"

#include "runtime/OpenRegException.h"

#include <cstdio>

namespace c10::openreg {

void throwError(orError_t status, const char* call, CallSite /*where*/) {
  const std::string detail = orGetLastErrorDetail();
  orGetLastError();
  throw ::openreg::testing::DriverError(status, call + (": " + detail));
}

void throwError(orError_t status, const std::string& what) {
  throw ::openreg::testing::DriverError(status, what);
}

void warnOfError(orError_t status, const char* call) noexcept {
  warnQuietly(std::string(call) + ": " + orGetErrorName(status));
  orGetLastError();
}

void warnQuietly(const std::string& message) noexcept {
  std::fprintf(stderr, "%s\n", message.c_str());
}

} // namespace c10::openreg
