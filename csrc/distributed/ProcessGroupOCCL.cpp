// How calls are queued. Collectives.cpp has the calls, Recording.cpp what is reported
// about them.
#include "distributed/ProcessGroupOCCL.h"

#include "distributed/Faults.h"
#include "distributed/FlightRecorder.h"
#include "distributed/Rendezvous.h"
#include "distributed/Settings.h"
#include "executor/Launch.h"
#include "runtime/OpenRegCapture.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <numeric>

namespace c10::openreg::occl {
namespace {

ProcessGroupOCCL::EngineFactory engineFactory = nullptr; // set before any group

std::vector<uint64_t> ranksInWorld(
    const ProcessGroupOCCL::Options& options,
    int size) {
  std::vector<uint64_t> ranks = options.global_ranks_in_group;
  if (ranks.empty()) {
    ranks.resize(static_cast<size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return ranks;
}

} // namespace

void ProcessGroupOCCL::setEngineFactory(EngineFactory factory) {
  engineFactory = factory;
}

ProcessGroupOCCL::ProcessGroupOCCL(
    c10::intrusive_ptr<c10d::Store> store,
    int rank,
    int size,
    c10::intrusive_ptr<Options> options)
    : Backend(rank, size),
      store_(std::move(store)),
      options_(std::move(options)),
      ranksInWorld_(ranksInWorld(*options_, size)),
      group_(std::make_shared<Group>(rank, size, options_->group_name)) {
  TORCH_CHECK_VALUE(
      size > 0 && rank >= 0 && rank < size,
      "a rank must be in [0, ",
      size,
      "), but got ",
      rank);
  if (const auto cluster = topology()) {
    std::vector<int> places(ranksInWorld_.begin(), ranksInWorld_.end());
    group_->setNetwork({*cluster, std::move(places), rank});
  }
  if (const auto timeout = timeoutForAll()) {
    options_->timeout = *timeout;
  }
  group_->setTransport(connect(
      *store_,
      engineFactory(
          c10::make_intrusive<c10d::PrefixStore>("engine", store_),
          rank,
          size,
          options_->timeout),
      options_->group_name));
  init();
}

ProcessGroupOCCL::~ProcessGroupOCCL() {
  group_->fail(
      "rank " + std::to_string(getRank()) + " of group '" + group_->name() +
      "' has deleted it");
}

// --- jobs -----------------------------------------------------------------------

struct ProcessGroupOCCL::RunningCall {
  std::shared_ptr<Group> group;
  std::shared_ptr<Outcome> outcome;
  std::vector<Step> steps;
  std::chrono::milliseconds timeout;
  int64_t extraTime;
  std::shared_ptr<ExtraTime> extraTimeOfGroup;
  std::vector<std::shared_ptr<int>> sources; // steps point to them
  int rankInWorld;

  // Runs again with each replay of a graph that it was captured in.
  void operator()() const {
    outcome->begin();
    const Deadline deadline = std::chrono::steady_clock::now() + timeout;
    try {
      for (const Step& step : steps) {
        if (const auto* call = std::get_if<Collective>(&step)) {
          const Moment ready = group->transport().run(*call, deadline);
          group->passLinks(nameOf(call->kind), *call, ready);
        } else {
          const auto& messages = std::get<std::vector<Transfer>>(step);
          // Before they are sent: those who receive them have no clock for it.
          group->passLinks("send", messages, std::chrono::steady_clock::now());
          group->transport().transfer(messages, deadline);
        }
      }
      outcome->end();
      if (int64_t used = extraTime; used > 0) {
        extraTimeOfGroup->compare_exchange_strong(used, 0);
      }
    } catch (const std::exception& error) {
      const bool late = std::chrono::steady_clock::now() >= deadline;
      const bool isNews = !group->failed(); // and nobody here has ended it
      group->fail(error.what());
      outcome->fail(
          error.what(),
          late ? c10d::WorkResult::TIMEOUT : c10d::WorkResult::COMM_ERROR);
      if (isNews) {
        FlightRecorder::get().dumpOnce(rankInWorld);
        endProcessIfTold(error.what());
      }
      orKernelFail(orErrorCommunication, error.what());
    }
  }
};

void ProcessGroupOCCL::Job::listAccesses(
    std::vector<MemoryAccess>& accesses) const {
  for (const at::Tensor& tensor : inputs) {
    at::native::openreg::listAccess(tensor, /*writes=*/false, accesses);
  }
  for (const at::Tensor& tensor : outputs) {
    at::native::openreg::listAccess(tensor, /*writes=*/true, accesses);
  }
}

c10::intrusive_ptr<CollectiveWork> ProcessGroupOCCL::makeWork(
    const Job& job,
    const Batch& batch,
    const OpenRegStream& stream) const {
  return c10::make_intrusive<CollectiveWork>(
      job.type,
      job.name,
      job.inputs,
      CollectiveWork::Parts{
          group_,
          batch.outcome,
          batch.end,
          stream,
          job.outputs,
          {},
          job.sources.empty() ? nullptr : job.sources[0],
          sequence_.load(),
          job.timeout,
          job.hostWaits});
}

// Keeps the memory of a job from being reused before the job has run. The thread of a
// stream holds no tensor: to drop one it may need Python's lock, while the host has it
// and waits for that stream.
void ProcessGroupOCCL::keepMemory(
    const Job& job,
    CollectiveWork& work,
    const OpenRegStream& stream) {
  Tensors held = job.outputs;
  held.insert(held.end(), job.inputs.begin(), job.inputs.end());
  if (isCapturing(stream)) {
    work.hold(std::move(held)); // the memory is that of the graph's pool
    return;
  }
  for (const at::Tensor& tensor : held) {
    if (tensor.has_storage()) {
      c10::getDeviceAllocator(c10::openreg::kDeviceType)
          ->recordStream(tensor.storage().data_ptr(), stream.unwrap());
    }
  }
}

// Runs a job that the host waits for on its own thread if the stream is idle: that
// saves two changes of threads. The Work reports a failure.
bool ProcessGroupOCCL::tryHere(
    const Submission& job,
    const RunningCall& running) {
  const orLaunchConfig config{job.name, orLaunchTry};
  bool ran = false;
  const orError_t status =
      trySubmit(job, [&](orStream_t handle, const auto& begin) {
        return orLaunchKernelEx(&config, handle, [&] {
          begin();
          ran = true;
          running();
        });
      });
  if (!ran) {
    (void)OPENREG_IS_READY(status);
  }
  return ran;
}

// docs:begin launch-collective
ProcessGroupOCCL::WorkPtr ProcessGroupOCCL::launch(
    Job job,
    const Batch& batch) {
  const DeviceIndex device = job.device.index();
  const OpenRegStream stream = group_->streamFor(
      job.lane.value_or(Group::Lane{device}),
      options_->is_high_priority_stream);
  std::unique_lock order(group_->orderMutex, std::defer_lock);
  if (!job.lane) {
    order.lock(); // collectives run in the order in which they were called
    group_->followOtherDevices(stream);
    ++sequence_;
  }
  auto work = makeWork(job, batch, stream);

  // Behind the work before it. In a capture the group's stream joins it by the event.
  OpenRegEvent before;
  before.record(getCurrentOpenRegStream(device));
  before.block(stream);

  auto running = std::make_unique<RunningCall>(RunningCall{
      group_,
      batch.outcome,
      job.steps,
      job.timeout,
      job.extraTime,
      extraTime_,
      job.sources,
      static_cast<int>(ranksInWorld_[static_cast<size_t>(getRank())])});
  // docs:end launch-collective
  keepMemory(job, *work, stream);
  recordFlight(job, batch);
  const auto list = [&](std::vector<MemoryAccess>& accesses) {
    job.listAccesses(accesses);
  };
  const Submission submission{job.name, stream, list};
  if (!job.runsHere || !tryHere(submission, *running)) {
    const orLaunchConfig config{job.name, orLaunchDefault};
    OPENREG_CHECK(submit(submission, [&](orStream_t handle) {
      return orLaunchKernelEx(
          &config, handle, [running = std::move(running)] { (*running)(); });
    }));
  }
  batch.end->record(stream);
  work->endRecord();
  return work;
}

ProcessGroupOCCL::WorkPtr ProcessGroupOCCL::start(Job job) {
  group_->check();
  if (C10_UNLIKELY(c10::openreg::faultsPlanned())) {
    askAboutCollective(
        job.name,
        getCurrentOpenRegStream(job.device.index()),
        static_cast<int>(ranksInWorld_[static_cast<size_t>(getRank())]));
  }
  const c10::openreg::WithoutFaults part; // of the collective
  if (job.timeout == c10d::kUnsetTimeout) {
    job.extraTime = *extraTime_;
    job.timeout = options_->timeout + std::chrono::milliseconds(job.extraTime);
  }
  if (!batch_) {
    return launchRecorded(
        std::move(job),
        {{}, std::make_shared<Outcome>(), std::make_shared<OpenRegEvent>()});
  }
  const OpenRegStream stream = group_->streamFor(
      {job.device.index()}, options_->is_high_priority_stream);
  auto work = makeWork(job, *batch_, stream);
  work->endRecord();
  batch_->add(std::move(job));
  return work;
}

// --- several calls as one ---------------------------------------------------------

void ProcessGroupOCCL::Batch::add(Job other) {
  if (!job) {
    job = std::move(other);
    job->type = c10d::OpType::COALESCED;
    job->name = "occl:coalesced";
    job->lane.reset();
    return;
  }
  TORCH_CHECK_VALUE(
      job->device == other.device,
      "calls that are coalesced must be of one device, but they are of ",
      job->device,
      " and ",
      other.device);
  for (Step& step : other.steps) {
    // Messages depend on each other, so they are under way together.
    auto* messages = std::get_if<std::vector<Transfer>>(&step);
    auto* before = std::get_if<std::vector<Transfer>>(&job->steps.back());
    if (messages && before) {
      before->insert(before->end(), messages->begin(), messages->end());
    } else {
      job->steps.push_back(std::move(step));
    }
  }
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(job->inputs, other.inputs);
  append(job->outputs, other.outputs);
  append(job->sources, other.sources);
  job->timeout = std::max(job->timeout, other.timeout);
  job->extraTime = std::max(job->extraTime, other.extraTime);
}

void ProcessGroupOCCL::startCoalescing() {
  TORCH_CHECK(!batch_, "calls are being coalesced already");
  batch_ =
      Batch{{}, std::make_shared<Outcome>(), std::make_shared<OpenRegEvent>()};
}

ProcessGroupOCCL::WorkPtr ProcessGroupOCCL::endCoalescing() {
  TORCH_CHECK(batch_, "no calls are being coalesced");
  Batch batch = std::move(*batch_);
  batch_.reset();
  if (!batch.job) {
    return nullptr;
  }
  return launchRecorded(std::move(*batch.job), batch);
}

// --- the group --------------------------------------------------------------------

c10::intrusive_ptr<c10d::Backend> ProcessGroupOCCL::split(
    const c10::intrusive_ptr<c10d::Store>& /*store*/,
    const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto place = std::find(ranks.begin(), ranks.end(), getRank());
  if (place == ranks.end()) {
    return nullptr;
  }
  auto own = c10::dynamic_intrusive_pointer_cast<Options>(options);
  TORCH_CHECK_TYPE(
      own, "to split a group of occl, pass ProcessGroupOCCL.Options");
  own->global_ranks_in_group.clear();
  // Not in the store that c10d gives: its prefix counts the groups of a rank, which
  // ranks may have different numbers of.
  std::string name = "split";
  for (const int rank : ranks) {
    name += "_" + std::to_string(rank);
    const auto& before = options_->global_ranks_in_group;
    own->global_ranks_in_group.push_back(
        before.empty() ? static_cast<uint64_t>(rank)
                       : before[static_cast<size_t>(rank)]);
  }
  name += "_" + std::to_string(splits_[ranks]++);
  return c10::make_intrusive<ProcessGroupOCCL>(
      c10::make_intrusive<c10d::PrefixStore>(name, store_),
      static_cast<int>(place - ranks.begin()),
      static_cast<int>(ranks.size()),
      own);
}

void ProcessGroupOCCL::abort() {
  group_->fail(
      "rank " + std::to_string(getRank()) + " of group '" + group_->name() +
      "' aborted it");
  group_->settle();
}

void ProcessGroupOCCL::shutdown() {
  group_->settle(); // what is queued still runs
  group_->fail(
      "rank " + std::to_string(getRank()) + " of group '" + group_->name() +
      "' has shut it down");
}

} // namespace c10::openreg::occl
