// Memory: where it was allocated, what happened to it, and private pools.
#include "Module.h"

#include "runtime/OpenRegDeviceAllocator.h"

#include <c10/core/AllocatorConfig.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <thread>

namespace torch {

// Its header needs one that is not in the wheel.
std::vector<py::object> py_symbolize(std::vector<CapturedTraceback*>& contexts);

} // namespace torch

namespace torch::openreg {
namespace {

using c10::openreg::getOpenRegDeviceAllocator;
using c10::openreg::PoolBlockInfo;
using c10::openreg::PoolContext;
using c10::openreg::PoolId;
using c10::openreg::PoolOutOfMemory;
using c10::openreg::PoolRecord;
using c10::openreg::PoolSegmentInfo;
using c10::openreg::PoolTraceEntry;

// --- history ------------------------------------------------------------------

std::shared_ptr<c10::GatheredContext> gatherPython() {
  return CapturedTraceback::gather(
      /*python=*/true, /*script=*/true, /*cpp=*/false);
}

std::shared_ptr<c10::GatheredContext> gatherAll() {
  return CapturedTraceback::gather(
      /*python=*/true, /*script=*/true, /*cpp=*/true);
}

PoolRecord recordOf(const std::optional<std::string>& context) {
  if (!context) {
    return PoolRecord::Never;
  }
  TORCH_CHECK_VALUE(
      *context == "state" || *context == "alloc" || *context == "all",
      "expected state, alloc, all, or None as the context, but got ",
      *context);
  return *context == "state" ? PoolRecord::State
      : *context == "alloc"  ? PoolRecord::Alloc
                             : PoolRecord::All;
}

// As torch.cuda.memory._record_memory_history(), for all devices.
void recordHistory(
    const std::optional<std::string>& enabled,
    const std::optional<std::string>& context,
    const std::string& stacks,
    size_t entries,
    bool clear) {
  TORCH_CHECK_VALUE(
      !enabled || *enabled == "state" || *enabled == "all",
      "expected state, all, or None for enabled, but got ",
      *enabled);
  TORCH_CHECK_VALUE(
      stacks == "python" || stacks == "all",
      "expected python or all for stacks, but got ",
      stacks);
  auto& allocator = getOpenRegDeviceAllocator();
  const PoolRecord record = enabled ? recordOf(context) : PoolRecord::Never;
  allocator.setContextRecorder(stacks == "all" ? gatherAll : gatherPython);
  for (c10::DeviceIndex i = 0; i < c10::openreg::device_count(); ++i) {
    allocator.pool(i).recordHistory(
        enabled.has_value(),
        record,
        enabled && *enabled == "state" ? 1 : entries,
        clear);
  }
}

/// Turns contexts into lists of frames: all at once, since that is cheaper.
class Frames {
 public:
  /// `target["frames"]` is to be the frames of `context`.
  void add(py::dict target, const PoolContext& context) {
    if (context) {
      // setContextRecorder() was given nothing else.
      contexts_.push_back(static_cast<CapturedTraceback*>(
          static_cast<c10::GatheredContext*>(context.get())));
      kept_.push_back(context);
      targets_.push_back(std::move(target));
    } else {
      target["frames"] = py::list();
    }
  }
  void resolve() {
    const auto frames = py_symbolize(contexts_);
    for (size_t i = 0; i < frames.size(); ++i) {
      targets_[i]["frames"] = frames[i];
    }
  }

 private:
  std::vector<CapturedTraceback*> contexts_;
  std::vector<PoolContext> kept_;
  std::vector<py::dict> targets_;
};

const char* nameOf(PoolBlockInfo::State state) {
  switch (state) {
    case PoolBlockInfo::ActiveAllocated:
      return "active_allocated";
    case PoolBlockInfo::ActivePendingFree:
      return "active_pending_free";
    default:
      return "inactive";
  }
}

const char* nameOf(PoolTraceEntry::Action action) {
  switch (action) {
    case PoolTraceEntry::Alloc:
      return "alloc";
    case PoolTraceEntry::FreeRequested:
      return "free_requested";
    case PoolTraceEntry::FreeCompleted:
      return "free_completed";
    case PoolTraceEntry::SegmentAlloc:
      return "segment_alloc";
    case PoolTraceEntry::SegmentFree:
      return "segment_free";
    case PoolTraceEntry::SegmentMap:
      return "segment_map";
    case PoolTraceEntry::SegmentUnmap:
      return "segment_unmap";
    case PoolTraceEntry::Snapshot:
      return "snapshot";
    default:
      return "oom";
  }
}

// The default stream is 0, as on CUDA.
uintptr_t asNumber(int device, void* stream) {
  const auto index = static_cast<c10::DeviceIndex>(device);
  return stream == c10::openreg::getDefaultOpenRegStream(index).stream()
      ? 0
      : reinterpret_cast<uintptr_t>(stream);
}

py::dict toDict(int device, const PoolSegmentInfo& segment, Frames& frames) {
  py::dict dict;
  dict["device"] = device;
  dict["address"] = segment.address;
  dict["total_size"] = segment.size;
  dict["allocated_size"] = segment.allocated;
  dict["active_size"] = segment.active;
  dict["requested_size"] = segment.requested;
  dict["stream"] = asNumber(device, segment.stream);
  dict["segment_type"] = segment.isLarge ? "large" : "small";
  dict["segment_pool_id"] =
      py::make_tuple(segment.pool.first, segment.pool.second);
  dict["is_expandable"] = segment.grows;
  frames.add(dict, segment.context);
  py::list blocks;
  for (const PoolBlockInfo& block : segment.blocks) {
    py::dict item;
    item["address"] = block.address;
    item["size"] = block.size;
    item["requested_size"] = block.requested;
    item["state"] = nameOf(block.state);
    frames.add(item, block.context);
    blocks.append(item);
  }
  dict["blocks"] = blocks;
  return dict;
}

py::dict toDict(int device, const PoolTraceEntry& entry, Frames& frames) {
  py::dict dict;
  dict["action"] = nameOf(entry.action);
  dict[entry.action == PoolTraceEntry::OutOfMemory ? "device_free" : "addr"] =
      entry.address;
  dict["size"] = entry.size;
  dict["stream"] = asNumber(device, entry.stream);
  dict["time_us"] = entry.time / 1000;
  dict["compile_context"] = "N/A";
  dict["user_metadata"] = "";
  dict["segment_pool_id"] = py::make_tuple(entry.pool.first, entry.pool.second);
  frames.add(dict, entry.context);
  return dict;
}

// {segments, device_traces, allocator_settings} of all devices, or the segments of a private pool.
py::dict snapshot(const PoolId& pool, bool traces) {
  Frames frames;
  py::list segments, deviceTraces;
  auto& allocator = getOpenRegDeviceAllocator();
  for (c10::DeviceIndex i = 0; i < c10::openreg::device_count(); ++i) {
    for (const PoolSegmentInfo& segment : allocator.pool(i).snapshot(pool)) {
      segments.append(toDict(i, segment, frames));
    }
    py::list trace;
    if (traces) {
      for (const PoolTraceEntry& entry : allocator.pool(i).history()) {
        trace.append(toDict(i, entry, frames));
      }
    }
    deviceTraces.append(trace);
  }
  frames.resolve();
  py::dict dict;
  dict["segments"] = segments;
  dict["device_traces"] = deviceTraces;
  py::dict settings;
  settings["expandable_segments"] = c10::CachingAllocator::
      AcceleratorAllocatorConfig::use_expandable_segments();
  dict["allocator_settings"] = settings;
  return dict;
}

// Calls observer(device, segment bytes, allowed bytes, free bytes).
void observeOutOfMemory(const py::function& observer) {
  // Never destroyed: the pools live as long as the process.
  auto* kept = new py::function(observer);
  for (c10::DeviceIndex i = 0; i < c10::openreg::device_count(); ++i) {
    getOpenRegDeviceAllocator().pool(i).observeOutOfMemory(
        [kept, i](const PoolOutOfMemory& failed) {
          const py::gil_scoped_acquire gil;
          (*kept)(
              static_cast<int>(i), failed.segment, failed.allowed, failed.free);
        });
  }
}

// --- private pools ------------------------------------------------------------

void beginAllocateToPool(int64_t device, const PoolId& id) {
  const bool began = getOpenRegDeviceAllocator()
                         .pool(toExistingIndex(device))
                         .beginAllocateToPool(
                             id, [thread = std::this_thread::get_id()](void*) {
                               return std::this_thread::get_id() == thread;
                             });
  TORCH_CHECK(
      began,
      "memory pool (",
      id.first,
      ", ",
      id.second,
      ") is in use on ",
      c10::Device(
          c10::openreg::kDeviceType, static_cast<c10::DeviceIndex>(device)),
      " already; leave the context it was entered in first");
}

void endAllocateToPool(int64_t device, const PoolId& id) {
  auto& pool = getOpenRegDeviceAllocator().pool(toExistingIndex(device));
  pool.endAllocateToPool(id);
  pool.releasePool(id);
}

void retainPool(int64_t device, const PoolId& id, bool lastResort, bool split) {
  auto& pool = getOpenRegDeviceAllocator().pool(toExistingIndex(device));
  pool.retainPool(id);
  if (lastResort) {
    pool.usePoolAsLastResort(id);
  }
  if (!split) {
    pool.doNotSplitInPool(id);
  }
}

void releasePool(int64_t device, const PoolId& id) {
  auto& pool = getOpenRegDeviceAllocator().pool(toExistingIndex(device));
  pool.releasePool(id);
  pool.emptyCache(id);
}

int poolUsers(int64_t device, const PoolId& id) {
  return getOpenRegDeviceAllocator()
      .pool(toExistingIndex(device))
      .poolUsers(id);
}

} // namespace

void addMemoryHistory(py::module_& module) {
  module.def("_recordHistory", torch::wrap_pybind_function(recordHistory));
  module.def("_memorySnapshot", torch::wrap_pybind_function(snapshot));
  module.def(
      "_observeOutOfMemory", torch::wrap_pybind_function(observeOutOfMemory));
  module.def(
      "_beginAllocateToPool",
      torch::wrap_pybind_function_no_gil(beginAllocateToPool));
  module.def(
      "_endAllocateToPool",
      torch::wrap_pybind_function_no_gil(endAllocateToPool));
  module.def("_retainPool", torch::wrap_pybind_function_no_gil(retainPool));
  module.def("_releasePool", torch::wrap_pybind_function_no_gil(releasePool));
  module.def("_poolUsers", torch::wrap_pybind_function_no_gil(poolUsers));
}

} // namespace torch::openreg
