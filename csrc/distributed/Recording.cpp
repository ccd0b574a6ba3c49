// What is reported about calls, to profilers and to the flight recorder.
#include "distributed/FlightRecorder.h"
#include "distributed/ProcessGroupOCCL.h"

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

#include <cstring>

namespace c10::openreg::occl {

// Made by the first call: c10d names a group after it is made.
std::shared_ptr<const FlightRecorder::Members> ProcessGroupOCCL::members() {
  const std::lock_guard lock(membersMutex_);
  if (!members_) {
    members_ = std::make_shared<FlightRecorder::Members>(
        FlightRecorder::Members{group_->name(), getGroupDesc(), ranksInWorld_});
  }
  return members_;
}

void ProcessGroupOCCL::recordFlight(const Job& job, const Batch& batch) {
  FlightRecorder& recorder = FlightRecorder::get();
  if (!recorder.enabled()) {
    return;
  }
  FlightRecorder::Call call{
      members(),
      job.name + std::strlen("occl:"),
      job.lane ? ++messages_ : sequence_.load(),
      job.timeout,
      batch.outcome};
  if (job.lane) {
    call.message = std::to_string(getRank()) +
        (job.lane->receives ? "<-" : "->") + std::to_string(job.lane->peer);
  }
  recorder.record(std::move(call), job.inputs, job.outputs);
}

// With what profilers want to know of a call: sizes, the group, its number.
ProcessGroupOCCL::WorkPtr ProcessGroupOCCL::launchRecorded(
    Job job,
    const Batch& batch) {
  if (C10_LIKELY(!at::hasGlobalCallbacks() && !at::hasThreadLocalCallbacks())) {
    return launch(std::move(job), batch);
  }
  const auto elements = [](const Tensors& tensors) {
    int64_t count = 0;
    for (const at::Tensor& tensor : tensors) {
      count += tensor.numel();
    }
    return count;
  };
  const auto& any = job.outputs.empty() ? job.inputs : job.outputs;
  RECORD_PARAM_COMMS_DATA(
      std::make_tuple(
          static_cast<int64_t>(sequence_.load() + 1), job.lane.has_value()),
      std::make_tuple(group_->name(), getGroupDesc()),
      job.inputs,
      job.outputs,
      getRank(),
      std::string(job.name).substr(std::strlen("occl:")),
      elements(job.inputs),
      elements(job.outputs),
      any.empty() ? at::kByte : any[0].scalar_type(),
      std::vector<int64_t>(),
      std::vector<int64_t>(),
      0,
      1,
      getSize());
  return launch(std::move(job), batch);
}

} // namespace c10::openreg::occl
