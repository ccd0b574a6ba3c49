#include "runtime/OpenRegException.h"

namespace c10::openreg {
namespace {

// The kind in the first line, as CUDA has it; the case in the second.
std::string describe(orError_t status, const char* call) {
  const std::string detail = orGetLastErrorDetail();
  orGetLastError(); // reported now, so the next call starts clean
  return c10::str(
      "OpenReg error: ",
      orGetErrorString(status),
      "\n",
      detail,
      " (",
      orGetErrorName(status),
      ", ",
      static_cast<int>(status),
      ", in `",
      call,
      "`)");
}

} // namespace

void throwError(orError_t status, const char* call, SourceLocation where) {
  throw AcceleratorError(
      where, static_cast<int32_t>(status), describe(status, call));
}

void warnOfError(orError_t status, const char* call) noexcept {
  warnQuietly(describe(status, call));
}

void warnQuietly(const std::string& message) noexcept {
  try {
    TORCH_WARN(message);
  } catch (...) {
    // An error has nowhere to go from a destructor.
  }
}

} // namespace c10::openreg
