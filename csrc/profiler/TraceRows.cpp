#include "profiler/TraceRows.h"

#include <algorithm>
#include <string_view>
#include <tuple>

namespace c10::openreg::profiler {

using libkineto::ActivityType;

namespace {

// Calls that only ask, and others whose twins Kineto leaves out on CUDA too.
bool isNoise(std::string_view call) {
  constexpr std::string_view kNoise[] = {
      "orDeviceIsActive",
      "orEventCreate",
      "orEventCreateWithFlags",
      "orEventDestroy",
      "orKernelFail",
      "orKernelPointer",
      "orSetDevice",
  };
  return call.find("Get") != std::string_view::npos ||
      std::find(std::begin(kNoise), std::end(kNoise), call) != std::end(kNoise);
}

bool isLaunch(std::string_view call) {
  return call == "orLaunchKernel";
}

// In CUDA's place a call has the name that CUDA's has.
std::string nameOf(const orActivityRecord& record) {
  const std::string_view name = record.name;
  return record.kind == orActivityRuntime && kDeviceType == DeviceType::CUDA
      ? c10::str("cuda", name.substr(2))
      : std::string(name);
}

} // namespace

TraceRows::TraceRows(
    int64_t toUnixTime,
    libkineto::getLinkedActivityCallback find)
    : toUnixTime_(toUnixTime), find_(std::move(find)) {
  buffer_->span = {0, 0, "openreg"}; // Kineto draws a row for each span
  buffer_->gpuOpCount = 0;
}

void TraceRows::add(const std::vector<orActivityRecord>& records) {
  for (const orActivityRecord& record : records) {
    if (record.kind == orActivityRuntime) {
      calls_.insert(record.correlation);
    }
  }
  for (const orActivityRecord& record : records) {
    switch (record.kind) {
      case orActivityKernel:
        addWork(record, ActivityType::CONCURRENT_KERNEL);
        break;
      case orActivityMemcpy:
        addTransfer(record, ActivityType::GPU_MEMCPY);
        break;
      case orActivityMemset:
        addTransfer(record, ActivityType::GPU_MEMSET);
        break;
      default:
        break; // calls come below
    }
  }
  for (const orActivityRecord& record : records) {
    if (record.kind == orActivityRuntime) {
      addCall(record);
    }
  }
  addRanges();
  closeSpan();
}

TraceRows::Row& TraceRows::addRow(
    const orActivityRecord& record,
    ActivityType type) {
  buffer_->emplace_activity(buffer_->span, type, nameOf(record));
  Row& row = *buffer_->activities.back();
  row.startTime = static_cast<int64_t>(record.start) + toUnixTime_;
  row.endTime = static_cast<int64_t>(record.end) + toUnixTime_;
  row.id = static_cast<int32_t>(record.correlation);
  row.threadId = static_cast<int32_t>(record.thread);
  row.flow.id = static_cast<uint32_t>(record.correlation);
  row.flow.type = libkineto::kLinkAsyncCpuGpu;
  if (const uint32_t op = HostIds::unpack(record.externalCorrelation).op) {
    row.linked = find_(static_cast<int32_t>(op));
  }
  return row;
}

// A launch that found its stream busy was tried again: without work it is left out.
void TraceRows::addCall(const orActivityRecord& record) {
  if (isNoise(record.name) ||
      (isLaunch(record.name) && !launched_.contains(record.correlation))) {
    return;
  }
  Row& row = addRow(record, kRuntimeRows);
  row.device = libkineto::processId();
  row.resource = static_cast<int32_t>(record.thread);
  row.flow.start = 1;
  row.addMetadata("correlation", record.correlation);
}

TraceRows::Row& TraceRows::addWork(
    const orActivityRecord& record,
    ActivityType type) {
  Row& row = addRow(record, type);
  row.device = record.device;
  row.resource = static_cast<int32_t>(record.stream);
  row.addMetadata("device", record.device);
  row.addMetadata("context", 1); // a device has one
  row.addMetadata("stream", record.stream);
  row.addMetadata("correlation", record.correlation);
  if (record.graph != 0) {
    row.addMetadata("graph id", record.graph);
    row.addMetadata("graph node id", record.graphNode);
  }
  streams_.emplace(row.device, row.resource);
  launched_.insert(record.correlation);
  if (!calls_.contains(record.correlation)) {
    row.flow = {}; // it was queued before the trace began
  }
  extendRange(row, HostIds::unpack(record.externalCorrelation).range);
  ++buffer_->gpuOpCount;
  return row;
}

void TraceRows::addTransfer(const orActivityRecord& record, ActivityType type) {
  Row& row = addWork(record, type);
  row.addMetadata("bytes", record.bytes);
  const auto nanoseconds =
      static_cast<double>(std::max<uint64_t>(record.end - record.start, 1));
  row.addMetadata(
      "memory bandwidth (GB/s)",
      static_cast<double>(record.bytes) / nanoseconds);
}

void TraceRows::extendRange(const Row& row, uint32_t range) {
  if (range == 0) {
    return;
  }
  const StreamKey stream{row.device, row.resource};
  const Span span{row.startTime, row.endTime};
  auto [found, isNew] = ranges_.try_emplace({stream, range}, span);
  if (!isNew) {
    found->second.start = std::min(found->second.start, span.start);
    found->second.end = std::max(found->second.end, span.end);
  }
}

void TraceRows::addRanges() {
  for (const auto& [key, span] : ranges_) {
    const auto& [stream, range] = key;
    const auto* annotation = find_(static_cast<int32_t>(range));
    if (!annotation) {
      continue;
    }
    buffer_->emplace_activity(
        buffer_->span, ActivityType::GPU_USER_ANNOTATION, annotation->name());
    Row& row = *buffer_->activities.back();
    row.startTime = span.start;
    row.endTime = span.end;
    std::tie(row.device, row.resource) = stream;
    row.linked = annotation;
  }
}

void TraceRows::closeSpan() {
  libkineto::TraceSpan& span = buffer_->span;
  span.iteration = 0;
  span.opCount = buffer_->gpuOpCount;
  for (const auto& row : buffer_->activities) {
    if (span.startTime == 0 || row->startTime < span.startTime) {
      span.startTime = row->startTime;
    }
    span.endTime = std::max(span.endTime, row->endTime);
  }
}

void TraceRows::log(libkineto::ActivityLogger& logger) const {
  for (const auto& row : buffer_->activities) {
    row->log(logger);
  }
}

std::vector<libkineto::ResourceInfo> TraceRows::streams() const {
  std::vector<libkineto::ResourceInfo> infos;
  for (const auto& [device, stream] : streams_) {
    infos.push_back(
        {stream, stream, device, "stream " + std::to_string(stream) + " "});
  }
  return infos;
}

} // namespace c10::openreg::profiler
