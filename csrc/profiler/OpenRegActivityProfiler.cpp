// Kineto's view of the device: PyTorch's profiler starts a session here, and gets rows
// made of libopenreg's activity records.
#include "profiler/TraceRows.h"

#include "runtime/OpenRegException.h"
#include "runtime/OpenRegFunctions.h"
#include "runtime/OpenRegProfiling.h"

#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <chrono>
#include <optional>

namespace c10::openreg::profiler {
namespace {

using libkineto::ActivityType;

/// What PyTorch asks of a device like ours: it wants neither host functions nor waits.
constexpr unsigned kKinds =
    orActivityKernel | orActivityMemcpy | orActivityMemset | orActivityRuntime;

/// Records that libopenreg gathers before it hands them over.
constexpr size_t kBatch = 4096;

/// What is to be added to the clock of the records to get Unix time, in nanoseconds.
/// The reading with the least time around it is the truest.
int64_t monotonicToUnix() {
  using std::chrono::steady_clock, std::chrono::system_clock;
  const auto nanoseconds = [](auto time) {
    return std::chrono::nanoseconds(time.time_since_epoch()).count();
  };
  int64_t best = INT64_MAX;
  int64_t offset = 0;
  for (int i = 0; i < 5; ++i) {
    const int64_t before = nanoseconds(steady_clock::now());
    const int64_t unix = nanoseconds(system_clock::now());
    const int64_t after = nanoseconds(steady_clock::now());
    if (after - before < best) {
      best = after - before;
      offset = unix - before - best / 2;
    }
  }
  return offset;
}

// --- which operator and which range a thread is in -----------------------------------

/// The operators and ranges that a thread is in. Sessions start and stop in the middle
/// of them; ids are never reused, so the ones from before a session match nothing in it.
struct ThreadScopes {
  std::vector<uint32_t> ops;
  std::vector<uint32_t> ranges;

  HostIds top() const {
    return {ops.empty() ? 0 : ops.back(), ranges.empty() ? 0 : ranges.back()};
  }
};

thread_local ThreadScopes scopes;

void push(std::vector<uint32_t>& ids, uint64_t id) {
  ids.push_back(static_cast<uint32_t>(id));
  OPENREG_CHECK_WARN(orActivityPushExternalCorrelationId(scopes.top().pack()));
}

void pop(std::vector<uint32_t>& ids) {
  if (!ids.empty()) {
    ids.pop_back();
    OPENREG_CHECK_WARN(orActivityPopExternalCorrelationId(nullptr));
  }
}

// --- a session ------------------------------------------------------------------------

/// A trace without the device: it has no rows, and only says that a profiler is on.
class HostSession : public libkineto::IActivityProfilerSession {
 public:
  void start() override {}
  void stop() override {}
  std::vector<std::string> errors() override {
    return {};
  }
  void processTrace(libkineto::ActivityLogger& /*logger*/) override {}
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return nullptr;
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    return {};
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return nullptr;
  }

 private:
  const ProfilerIsOn isOn_;
};

/// One trace. The records of all devices go to it from start() to stop().
///
/// Threads: Kineto calls push and pop from any, the rest from one at a time.
class DeviceSession final : public HostSession {
 public:
  // Kineto may drop a session that it has not stopped.
  ~DeviceSession() override {
    if (status_ == libkineto::TraceStatus::RECORDING) {
      OPENREG_CHECK_WARN(orActivityDisableTracing());
      OPENREG_CHECK_WARN(orActivityFlush(&keep, this, nullptr));
    }
  }

  void start() override {
    const orError_t status =
        orActivityEnableTracing(kKinds, kBatch, &keep, this);
    if (status != orSuccess) {
      errors_.emplace_back(orGetLastErrorDetail());
      TORCH_WARN("The trace has no rows of openreg: ", errors_.back());
      return;
    }
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    if (status_ != libkineto::TraceStatus::RECORDING) {
      return;
    }
    status_ = libkineto::TraceStatus::PROCESSING;
    OPENREG_CHECK(orActivityDisableTracing());
    size_t dropped = 0;
    OPENREG_CHECK(orActivityFlush(&keep, this, &dropped));
    if (dropped != 0) {
      errors_.push_back(c10::str(
          dropped, " records of openreg were dropped: too many came at once"));
      TORCH_WARN("The trace is not complete: ", errors_.back());
    }
  }

  std::vector<std::string> errors() override {
    return errors_;
  }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
  }

  void processTrace(
      libkineto::ActivityLogger& logger,
      libkineto::getLinkedActivityCallback find,
      int64_t /*startTime*/,
      int64_t /*endTime*/) override {
    rows_.emplace(monotonicToUnix(), std::move(find));
    rows_->add(std::exchange(records_, {}));
    rows_->log(logger);
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    return rows_ ? rows_->streams() : std::vector<libkineto::ResourceInfo>();
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return rows_ ? rows_->takeBuffer() : nullptr;
  }
  std::string getDeviceProperties() override;

  void pushCorrelationId(uint64_t id) override {
    push(scopes.ops, id);
  }
  void popCorrelationId() override {
    pop(scopes.ops);
  }
  void pushUserCorrelationId(uint64_t id) override {
    push(scopes.ranges, id);
  }
  void popUserCorrelationId() override {
    pop(scopes.ranges);
  }

 private:
  // libopenreg makes one such call at a time.
  static void keep(const orActivityRecord* records, size_t count, void* self) {
    auto& to = static_cast<DeviceSession*>(self)->records_;
    to.insert(to.end(), records, records + count);
  }

  std::vector<orActivityRecord> records_;
  std::vector<std::string> errors_;
  std::optional<TraceRows> rows_;
};

// With the keys that Kineto writes for CUDA.
std::string DeviceSession::getDeviceProperties() {
  std::string json;
  for (DeviceIndex device = 0; device < device_count(); ++device) {
    const orDeviceProp prop = get_device_properties(device);
    json += fmt::format(
        R"({}{{"id": {}, "name": "{}", "totalGlobalMem": {}, )"
        R"("computeMajor": {}, "computeMinor": {}, )"
        R"("maxThreadsPerBlock": {}, "maxThreadsPerMultiprocessor": {}, )"
        R"("regsPerMultiprocessor": {}, "warpSize": {}, )"
        R"("sharedMemPerBlock": {}, "numSms": {}, )"
        R"("sharedMemPerBlockOptin": {}, "sharedMemPerMultiprocessor": {}}})",
        device == 0 ? "" : ", ",
        static_cast<int>(device),
        prop.name,
        prop.totalGlobalMem,
        prop.major,
        prop.minor,
        prop.maxThreadsPerBlock,
        prop.maxThreadsPerMultiProcessor,
        prop.regsPerMultiprocessor,
        prop.warpSize,
        prop.sharedMemPerBlock,
        prop.multiProcessorCount,
        prop.sharedMemPerBlockOptin,
        prop.sharedMemPerMultiprocessor);
  }
  return json;
}

// --- what Kineto is told ----------------------------------------------------------------

class OpenRegActivityProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    return name_;
  }
  const std::set<ActivityType>& availableActivities() const override {
    return activities_;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& wanted,
      const libkineto::Config& /*config*/) override {
    if (!wanted.contains(ActivityType::CONCURRENT_KERNEL)) {
      return std::make_unique<HostSession>();
    }
    return std::make_unique<DeviceSession>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t /*start*/,
      int64_t /*duration*/,
      const std::set<ActivityType>& wanted,
      const libkineto::Config& config) override {
    return configure(wanted, config);
  }

 private:
  const std::string name_ = "openreg";
  const std::set<ActivityType> activities_ = {
      ActivityType::GPU_USER_ANNOTATION,
      ActivityType::GPU_MEMCPY,
      ActivityType::GPU_MEMSET,
      ActivityType::CONCURRENT_KERNEL,
      kRuntimeRows};
};

REGISTER_PRIVATEUSE1_PROFILER(OpenRegActivityProfiler);

// PyTorch hands it to Kineto with the first profile of PrivateUse1; profiles of CUDA are
// none.
[[maybe_unused]] const bool handedOver = [] {
  if (kDeviceType == DeviceType::CUDA) {
    torch::profiler::impl::PrivateUse1ProfilerRegistry::instance()
        .onKinetoInit();
  }
  return true;
}();

} // namespace
} // namespace c10::openreg::profiler
