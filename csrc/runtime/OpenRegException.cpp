#include "runtime/OpenRegException.h"

#include "runtime/OpenRegDeviceType.h"

#include <c10/util/Exception.h>

namespace c10::openreg {
namespace {

// The kind in the first line, as CUDA has it; the case in the second.
std::string describe(
    orError_t status,
    const std::string& detail,
    const std::string& where) {
  return c10::str(
      deviceTitle(),
      " error: ",
      orGetErrorString(status),
      "\n",
      detail,
      " (",
      orGetErrorName(status),
      ", ",
      static_cast<int>(status),
      where,
      ")");
}

std::string describeCall(orError_t status, const char* call) {
  const std::string detail = orGetLastErrorDetail();
  orGetLastError(); // reported now, so the next call starts clean
  return describe(status, detail, c10::str(", in `", call, "`"));
}

} // namespace

void throwError(orError_t status, const char* call, CallSite where) {
  throw AcceleratorError(
      {where.function, where.file, where.line},
      static_cast<int32_t>(status),
      describeCall(status, call));
}

void throwError(orError_t status, const std::string& what) {
  throw AcceleratorError(
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
      static_cast<int32_t>(status),
      describe(status, what, ""));
}

void warnOfError(orError_t status, const char* call) noexcept {
  warnQuietly(describeCall(status, call));
}

void warnQuietly(const std::string& message) noexcept {
  try {
    TORCH_WARN(message);
  } catch (...) {
    // An error has nowhere to go from a destructor.
  }
}

} // namespace c10::openreg
