#include "device_process/Server.h"

#include "device_process/Call.h"
#include "device_process/CompiledLibraries.h"
#include "device_process/DriverMemory.h"
#include "executor/OutputMemory.h"
#include "remote/Settings.h"
#include "runtime/OpenRegThreads.h"

#include <c10/core/DefaultDtype.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

namespace openreg::device {
namespace {

using at::native::openreg::DeviceMemorySource;
using at::native::openreg::OutputScope;
using at::native::openreg::PlannedMemory;
using remote::Channel;
using remote::ErrorKind;
using remote::kindOf;
using remote::MessageKind;
using remote::Side;
using remote::StatusPage;
using remote::Writer;

/// Numbers travel with the answer; other results lie in memory of the device.
constexpr uint64_t kMostContentBytes = sizeof(c10::complex<double>);

/// Keeps warnings for the driver, which can pass them to the program.
class WarningList final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    texts.push_back(warning.msg());
  }
  std::vector<std::string> texts;
};

ErrorKind kindOfError(const c10::Error& error) {
  const auto is = [&]<class T>(const T* /*type*/) {
    return dynamic_cast<const T*>(&error) != nullptr;
  };
  return is(static_cast<c10::IndexError*>(nullptr)) ? ErrorKind::Index
      : is(static_cast<c10::ValueError*>(nullptr))  ? ErrorKind::Value
      : is(static_cast<c10::TypeError*>(nullptr))   ? ErrorKind::Type
      : is(static_cast<c10::NotImplementedError*>(nullptr))
      ? ErrorKind::NotImplemented
      : is(static_cast<c10::LinAlgError*>(nullptr)) ? ErrorKind::LinAlg
      : is(static_cast<c10::OutOfMemoryError*>(nullptr))
      ? ErrorKind::OutOfMemory
      : ErrorKind::Error;
}

void applySettings(const remote::WireSettings& settings) {
  c10::openreg::useThreads(std::clamp(settings.threads, 1, 1024));
  const auto dtype = static_cast<c10::ScalarType>(settings.defaultDtype);
  if (dtype != c10::get_default_dtype_as_scalartype() &&
      c10::isFloatingType(dtype)) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
  }
  remote::applySwitches(settings.flags);
}

class Server final : DeviceMemorySource {
 public:
  Server(Channel& channel, StatusPage& status, StatusPage::Slot* slot)
      : channel_(channel), status_(status), slot_(slot) {}

  // docs:begin answer-calls
  void run() {
    keepFreedOfThisThread();
    while (channel_.await(Side::Device, nullptr)) {
      // A copy: what was checked must not change any more.
      const auto message = channel_.message();
      copy_.assign(message.begin(), message.end());
      channel_.pass(Side::Driver, answer());
    }
  }
  // docs:end answer-calls

 private:
  size_t answer() {
    try {
      if (kindOf(copy_) == MessageKind::Kernel) {
        return runCompiled();
      }
      parseCall(copy_, memoryBytes(), call_);
      const auto* op = find();
      if (!op) {
        return writeUnknown();
      }
      note(call_.name);
      const size_t bytes = execute(*op);
      note({});
      return bytes;
    } catch (const c10::Error& error) {
      note({});
      return writeError(
          channel_.room(), kindOfError(error), error.what_without_backtrace());
    } catch (const std::exception& error) {
      note({});
      return writeError(channel_.room(), ErrorKind::Other, error.what());
    }
  }

  const c10::OperatorHandle* find() {
    key_.assign(call_.name).append(1, '.').append(call_.overload);
    const auto known = operators_.find(key_);
    if (known != operators_.end()) {
      return &known->second;
    }
    const auto op = c10::Dispatcher::singleton().findSchema(
        {std::string(call_.name), std::string(call_.overload)});
    return op ? &operators_.emplace(key_, *op).first->second : nullptr;
  }

  size_t execute(const c10::OperatorHandle& op) {
    applySettings(call_.settings);
    auto call = std::make_unique<Call>(op, call_);
    WarningList warnings;
    std::vector<PlannedMemory> planned;
    for (const remote::WireSlot& slot : call_.planned) {
      planned.push_back({memoryBase() + slot.offset, slot.bytes});
    }
    {
      const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
      const OutputScope scope(this, call_.settings.hostBytes, planned);
      call->run();
    }
    if (!call->crosses()) {
      call.reset();
      return writeUnsupportedResult();
    }
    {
      const OutputScope scope(this, kMostContentBytes);
      call->moveResults();
    }
    return call->writeResult(channel_.room(), warnings.texts);
  }

  size_t runCompiled() {
    const auto kernel = remote::parseKernel(copy_, memoryBytes());
    note(kernel.name);
    c10::openreg::useThreads(std::clamp(kernel.threads, 1, 1024));
    libraries_.run(kernel);
    note({});
    Writer writer(channel_.room());
    writer.put(MessageKind::Done);
    return writer.size();
  }

  size_t writeUnknown() {
    Writer writer(channel_.room());
    writer.put(MessageKind::Unknown);
    return writer.size();
  }

  size_t writeUnsupportedResult() {
    Writer writer(channel_.room());
    writer.put(MessageKind::UnsupportedResult);
    const auto freed = takeFreed();
    writer.putAll(std::span<const uint64_t>(freed));
    return writer.size();
  }

  /// Asks the driver.
  void* tryAllocate(size_t bytes) override {
    Writer writer(channel_.room());
    writer.put(MessageKind::Allocate);
    const auto freed = takeFreed();
    writer.putAll(std::span<const uint64_t>(freed));
    writer.put(bytes);
    channel_.pass(Side::Driver, writer.size());
    if (!channel_.await(Side::Device, nullptr)) {
      return nullptr; // nobody waits for the result any more
    }
    const auto offset = remote::parseAllocation(channel_.message());
    return offset && bytes <= memoryBytes() && *offset <= memoryBytes() - bytes
        ? memoryBase() + *offset
        : nullptr;
  }

  void note(std::string_view name) {
    if (!slot_) {
      return;
    }
    const size_t bytes = std::min(name.size(), sizeof(slot_->running) - 1);
    std::copy_n(name.data(), bytes, slot_->running);
    slot_->running[bytes] = '\0';
    if (!name.empty()) {
      status_.calls.fetch_add(1, std::memory_order_relaxed);
    }
  }

  Channel& channel_;
  StatusPage& status_;
  StatusPage::Slot* const slot_;
  std::vector<char> copy_;
  remote::WireCall call_;
  std::string key_;
  std::unordered_map<std::string, c10::OperatorHandle> operators_;
  CompiledLibraries libraries_;
};

} // namespace

void serve(Channel channel, StatusPage& status, StatusPage::Slot* slot) {
  Server(channel, status, slot).run();
}

} // namespace openreg::device
