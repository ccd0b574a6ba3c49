// The device's part of a trace: rows for Kineto, made of libopenreg's records.
#pragma once

#include "runtime/OpenRegDeviceType.h"

#include <openreg.h>

#include <libkineto.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace c10::openreg::profiler {

/// The category of calls of libopenreg.
C10_HIDDEN inline const libkineto::ActivityType kRuntimeRows =
    kDeviceType == DeviceType::CUDA
    ? libkineto::ActivityType::CUDA_RUNTIME
    : libkineto::ActivityType::PRIVATEUSE1_RUNTIME;

/// What the thread that queued a piece of work was doing, as PyTorch's profiler
/// numbers it: the innermost operator and the innermost range of the user; 0: none.
/// Both travel as one external correlation id of libopenreg.
struct HostIds {
  uint32_t op = 0;
  uint32_t range = 0;

  uint64_t pack() const {
    return uint64_t{range} << 32 | op;
  }
  static HostIds unpack(uint64_t packed) {
    return {static_cast<uint32_t>(packed), static_cast<uint32_t>(packed >> 32)};
  }
};

/// Turns records into rows, with the categories and fields that a trace of CUDA has:
///
/// - a call of libopenreg is a row of its thread and the start of an arrow;
/// - a kernel, copy or set is a row of its stream and the end of that arrow;
/// - a range of the user spans, in each stream, the work that was queued in it.
///
/// Threads: one.
class TraceRows {
 public:
  /// `toUnixTime` is added to the times of records. `find` gives the row of an
  /// operator or a range, or nullptr if the host was not traced.
  TraceRows(int64_t toUnixTime, libkineto::getLinkedActivityCallback find);

  void add(const std::vector<orActivityRecord>& records);

  /// Hands all rows to the logger.
  void log(libkineto::ActivityLogger& logger) const;

  /// The streams that have rows.
  std::vector<libkineto::ResourceInfo> streams() const;

  /// Rows refer to the buffer, so both go together.
  std::unique_ptr<libkineto::CpuTraceBuffer> takeBuffer() {
    return std::move(buffer_);
  }

 private:
  using Row = libkineto::GenericTraceActivity;

  Row& addRow(const orActivityRecord& record, libkineto::ActivityType type);
  void addCall(const orActivityRecord& record);
  Row& addWork(const orActivityRecord& record, libkineto::ActivityType type);
  void addTransfer(
      const orActivityRecord& record,
      libkineto::ActivityType type);
  void extendRange(const Row& row, uint32_t range);
  void addRanges();
  void closeSpan();

  struct Span {
    int64_t start;
    int64_t end;
  };
  using StreamKey = std::pair<int, int32_t>; // device, stream

  const int64_t toUnixTime_;
  const libkineto::getLinkedActivityCallback find_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ =
      std::make_unique<libkineto::CpuTraceBuffer>();
  std::set<StreamKey> streams_;
  std::unordered_set<uint64_t> calls_; // correlations of calls in the trace
  std::unordered_set<uint64_t> launched_; // correlations of work that ran
  std::map<std::pair<StreamKey, uint32_t>, Span> ranges_;
};

} // namespace c10::openreg::profiler
