// What the tests of the integration share, beyond what those of the device do.
#pragma once

#include "../../third_party/openreg/tests/support.h"

#include "aten/OpenRegExecutor.h"
#include "runtime/OpenRegGuard.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <string>
#include <vector>

namespace c10::openreg::testing {

using ::openreg::testing::Gate;
using ::openreg::testing::waitsForGate;

inline Device device(int index) {
  return Device(DeviceType::PrivateUse1, static_cast<DeviceIndex>(index));
}

/// A handle that names nothing.
template <class Handle>
Handle madeUp() {
  return reinterpret_cast<Handle>(uintptr_t{0x1234560});
}

/// The message of the c10::Error that a call throws; "" if it throws none.
template <class Call>
std::string messageOf(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

/// The code of the AcceleratorError that a call throws; orSuccess if none.
template <class Call>
int codeOf(Call&& call) {
  try {
    call();
  } catch (const AcceleratorError& error) {
    return error.get_error_code();
  }
  return orSuccess;
}

inline ::testing::AssertionResult has(
    const std::string& text,
    const std::string& part) {
  return text.find(part) != std::string::npos ? ::testing::AssertionSuccess()
                                              : ::testing::AssertionFailure()
          << "'" << text << "' does not contain '" << part << "'";
}

/// Keeps the warnings of the calling thread for the lifetime of the object.
class Warnings : public WarningHandler {
 public:
  void process(const Warning& warning) override {
    messages.push_back(warning.msg());
  }

  std::vector<std::string> messages;

 private:
  const WarningUtils::WarningHandlerGuard guard_{this};
};

/// Turns warnings of the calling thread into errors, as `python -W error` does.
class WarningsThrow : public WarningHandler {
 public:
  void process(const Warning& warning) override {
    TORCH_CHECK(false, warning.msg());
  }

 private:
  const WarningUtils::WarningHandlerGuard guard_{this};
};

/// Leaves the current device and streams as a new thread finds them.
class DeviceTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (DeviceIndex i = 0; i < device_count(); ++i) {
      setCurrentOpenRegStream(getDefaultOpenRegStream(i));
    }
    set_device(0);
  }
};

/// The elements of a tensor, wherever it is.
template <class T>
std::vector<T> elements(const at::Tensor& tensor) {
  const at::Tensor host = tensor.cpu().contiguous();
  return {host.const_data_ptr<T>(), host.const_data_ptr<T>() + host.numel()};
}

// What Python does on import.
class LoadBackend : public ::testing::Environment {
  void SetUp() override {
    register_privateuse1_backend("openreg");
    at::openreg::registerExecutor();
  }
};
inline auto* const kLoadBackend =
    ::testing::AddGlobalTestEnvironment(new LoadBackend);

} // namespace c10::openreg::testing
