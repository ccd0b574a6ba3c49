#include "sanitizer/Sanitizer.h"

#include "executor/Launch.h"
#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegCapture.h"
#include "runtime/OpenRegDeviceMemory.h"
#include "runtime/OpenRegFunctions.h"
#include "sanitizer/Stacks.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

namespace c10::openreg::sanitizer {
namespace {

// Operators whose results have sizes, or are numbers, that depend on data: on any device
// the host waits for them. `index` is one only with masks, which nobody can tell here.
std::unordered_set<std::string> findOperatorsThatWait() {
  std::unordered_set<std::string> names;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (op && op->hasSchema() &&
        (op->hasTag(at::Tag::dynamic_output_shape) ||
         op->hasTag(at::Tag::data_dependent_output))) {
      names.insert(c10::toString(name));
    }
  }
  names.erase("aten::index.Tensor");
  return names;
}

bool makesHostWait(const char* name) {
  static const auto* names =
      new std::unordered_set<std::string>(findOperatorsThatWait());
  return names->contains(name);
}

/// What the thread has launched last.
struct LastLaunch {
  WorkPtr work;
  bool hostWaits = false;
  std::vector<WatchedZone> zones = {}; // to look at when it is launched
};
thread_local LastLaunch last;

// Without the overload: which one it was is of no use to who reads a report.
std::string withoutOverload(const std::string& name) {
  return name.starts_with("aten::") ? name.substr(0, name.find('.')) : name;
}

} // namespace

Sanitizer& Sanitizer::get() {
  static auto* sanitizer = new Sanitizer;
  return *sanitizer;
}

// --- on and off ---------------------------------------------------------------

void Sanitizer::enable(unsigned checks, Report report) {
  TORCH_CHECK(
      !runs_in_device_processes(),
      "the sanitizer does not work with OPENREG_EXECUTOR=process: it cannot "
      "see "
      "the memory of a device process. Run the program without that variable.");
  const std::lock_guard switching(switching_);
  TORCH_CHECK(
      this->checks() == 0, "the sanitizer is on already; call disable() first");
  {
    const std::lock_guard lock(mutex_);
    checker_ = Checker(checks);
    report_ = std::move(report);
  }
  checks_ = checks;
  before_ = exchangeSubmissionObserver(this);
  exchangeRuntimeObserver(this);
  DeviceMemory::guardBlocks(looksFor(kMemory));
}

void Sanitizer::disable() {
  const std::lock_guard switching(switching_);
  if (checks() == 0) {
    return;
  }
  DeviceMemory::guardBlocks(false);
  exchangeRuntimeObserver(nullptr);
  exchangeSubmissionObserver(before_);
  zones_.wait();
  report(zones_.take());
  checks_ = 0;
  std::unique_ptr<HostAccesses> accesses;
  Checker checker; // goes without the lock: stacks need Python's
  {
    const std::lock_guard lock(mutex_);
    accesses = std::move(hostAccesses_);
    std::swap(checker, checker_);
  }
}

// --- work ---------------------------------------------------------------------

WorkPtr Sanitizer::makeWork(const char* name, orStream_t stream, int device) {
  auto place = Stacks::gather();
  const std::lock_guard lock(mutex_);
  return std::make_shared<const Work>(
      withoutOverload(name),
      stream,
      device,
      checker_.nextNumber(),
      std::move(place),
      nullptr);
}

template <class Do>
void Sanitizer::checked(Do action) {
  Findings findings;
  {
    const std::lock_guard lock(mutex_);
    action(findings);
  }
  report(findings);
}

void Sanitizer::report(const Findings& findings) {
  for (const Finding& finding : findings) {
    report_(finding);
  }
}

std::vector<MemoryUse> Sanitizer::toUses(
    const std::vector<MemoryAccess>& accesses) const {
  // The rest of the ranges is not told: they may be anywhere in the block.
  const bool isCut = accesses.size() >= at::native::openreg::kMostRuns;
  std::vector<MemoryUse> uses;
  for (const auto& [pointer, bytes, writes] : accesses) {
    if (bytes != 0) {
      uses.push_back(
          {rangeOf(pointer, bytes),
           writes,
           isDeviceAddress(pointer),
           isCut ? checker_.bytesBehind(pointer) : 0});
    }
  }
  return uses;
}

void Sanitizer::onSubmit(
    const Submission& submission,
    const std::vector<MemoryAccess>& accesses) {
  if (before_) {
    before_->onSubmit(submission, accesses);
  }
  const orStream_t stream = submission.stream.stream();
  last = {
      makeWork(submission.name, stream, submission.stream.device_index()),
      makesHostWait(submission.name)};
  std::vector<RedZonePtr> toFill;
  checked([&](Findings& findings) {
    const auto uses = toUses(accesses);
    checker_.launch(last.work, uses, findings);
    if (last.hostWaits) {
      checker_.races.hostWaitsForStream(stream);
    }
    if (looksFor(kMemory) && !isCapturing(stream)) {
      toFill = checker_.zonesToFill(uses);
      last.zones = checker_.zonesBeside(uses);
    }
  });
  RedZoneChecks::fill(
      std::move(toFill), submission.stream, submission.isRunning);
}

void Sanitizer::onLaunched(const Submission& submission) {
  if (before_) {
    before_->onLaunched(submission);
  }
  if (last.work && last.work->stream == submission.stream.stream()) {
    zones_.look(last.work, std::exchange(last.zones, {}), submission.stream);
  }
  if (looksFor(kMemory)) {
    report(zones_.take());
  }
}

void Sanitizer::onAllocateInKernel(const void* pointer) {
  const std::lock_guard lock(mutex_);
  checker_.fillZone(pointer);
}

// Kernels that run now allocate what they return, after they were submitted.
void Sanitizer::onResult(const void* pointer) {
  if (!last.work) {
    return;
  }
  checked([&](Findings& findings) {
    checker_.addResult(last.work, pointer, findings);
    if (last.hostWaits) {
      checker_.races.hostWaitsForStream(last.work->stream);
    }
  });
}

void Sanitizer::onHostAccess(
    const char* name,
    const std::vector<MemoryAccess>& accesses) {
  std::vector<MemoryUse> uses;
  {
    const std::lock_guard lock(mutex_);
    uses = toUses(accesses);
    if (!checker_.tracks(uses)) {
      return;
    }
  }
  const WorkPtr work = makeWork(name, nullptr, -1);
  checked(
      [&](Findings& findings) { checker_.actOnHost(work, uses, findings); });
}

void Sanitizer::onReplay(const void* graph, orStream_t stream) {
  const WorkPtr work = makeWork("graph replay", stream, current_device());
  checked([&](Findings& findings) { checker_.replay(graph, work, findings); });
}

// --- order --------------------------------------------------------------------

void Sanitizer::onEventRecord(orEvent_t event, orStream_t stream) {
  const std::lock_guard lock(mutex_);
  checker_.races.record(event, stream);
}

void Sanitizer::onEventDestroy(orEvent_t event) {
  const std::lock_guard lock(mutex_);
  checker_.races.destroy(event);
}

void Sanitizer::onStreamWait(orStream_t stream, orEvent_t event) {
  const std::lock_guard lock(mutex_);
  checker_.races.wait(stream, event);
}

template <class Wait>
void Sanitizer::hostWaits(Wait wait) {
  checked([&](Findings& findings) {
    wait(checker_.races);
    checker_.settleReads(findings);
  });
  if (looksFor(kMemory)) {
    report(zones_.take());
  }
}

void Sanitizer::onHostWaitForEvent(orEvent_t event) {
  hostWaits([&](RaceDetector& races) { races.hostWaitsForEvent(event); });
}

void Sanitizer::onHostWaitForStream(orStream_t stream) {
  hostWaits([&](RaceDetector& races) { races.hostWaitsForStream(stream); });
}

void Sanitizer::onHostWaitForDevice(int device) {
  hostWaits([&](RaceDetector& races) { races.hostWaitsForDevice(device); });
}

// --- memory -------------------------------------------------------------------

PlacePtr Sanitizer::placeFor(unsigned checks) const {
  return looksFor(checks) ? Stacks::gather() : nullptr;
}

std::vector<Block> Sanitizer::liveBlocks() {
  const std::lock_guard lock(mutex_);
  return checker_.liveBlocks();
}

void Sanitizer::onMap(const void* pointer, size_t bytes) {
  const std::lock_guard lock(mutex_);
  checker_.map(rangeOf(pointer, bytes));
}

// What a block has behind the bytes that were asked for. Memory of a graph is cut anew
// by each of its nodes, so nothing in it keeps a pattern.
RedZonePtr Sanitizer::makeZone(
    const void* pointer,
    size_t bytes,
    orStream_t stream) const {
  constexpr size_t kMost = 1024;
  if (!looksFor(kMemory) || isCapturing(stream)) {
    return nullptr;
  }
  DeviceMemory* memory = DeviceMemory::find(deviceOfPointer(pointer));
  const size_t size = memory ? memory->pool().sizeOf(pointer) : 0;
  if (size <= bytes) {
    return nullptr; // from around the pool
  }
  const char* end = static_cast<const char*>(pointer) + bytes;
  return std::make_shared<RedZone>(
      rangeOf(end, std::min(size - bytes, kMost)),
      static_cast<unsigned char*>(kernelAddress(end)));
}

void Sanitizer::onAllocate(
    const void* pointer,
    size_t bytes,
    orStream_t stream) {
  Block block{
      rangeOf(pointer, bytes), stream, 0, placeFor(kMemory | kInit | kLeak)};
  block.zone = makeZone(pointer, bytes, stream);
  const std::lock_guard lock(mutex_);
  checker_.allocate(std::move(block));
}

void Sanitizer::onFree(const void* pointer) {
  PlacePtr place = placeFor(kMemory);
  const std::lock_guard lock(mutex_);
  checker_.free(pointer, std::move(place));
}

void Sanitizer::onRecordStream(const void* pointer, orStream_t stream) {
  const std::lock_guard lock(mutex_);
  checker_.recordStream(pointer, stream);
}

void Sanitizer::onPin(const void* pointer, size_t bytes) {
  PlacePtr place = placeFor(kMemory | kLeak);
  const std::lock_guard lock(mutex_);
  checker_.pin({rangeOf(pointer, bytes), nullptr, 0, std::move(place)});
  if (!hostAccesses_ && checks() != 0) {
    hostAccesses_ = std::make_unique<HostAccesses>(*this);
  }
}

void Sanitizer::onUnpin(const void* pointer) {
  checked([&](Findings& findings) { checker_.unpin(pointer, findings); });
}

// --- graphs -------------------------------------------------------------------

void Sanitizer::onCaptureBegin(const void* graph, orStream_t stream) {
  const std::lock_guard lock(mutex_);
  checker_.races.beginCapture(graph, stream);
}

void Sanitizer::onCaptureEnd(const void* graph) {
  const std::lock_guard lock(mutex_);
  checker_.races.endCapture(graph);
}

void Sanitizer::onExternalRecord(orEvent_t event, orStream_t stream) {
  const std::lock_guard lock(mutex_);
  checker_.races.recordExternally(event, stream);
}

void Sanitizer::onExternalWait(orStream_t stream, orEvent_t event) {
  const std::lock_guard lock(mutex_);
  checker_.races.waitExternally(stream, event);
}

void Sanitizer::onGraphReset(const void* graph) {
  const std::lock_guard lock(mutex_);
  checker_.races.resetGraph(graph);
}

} // namespace c10::openreg::sanitizer
