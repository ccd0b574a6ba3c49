// Memory: the allocator's cache and its figures.
#include "Module.h"

#include "executor/LibraryWorkspaces.h"
#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegHostAllocator.h"
#include "runtime/OpenRegUncachedMemory.h"

namespace torch::openreg {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::openreg::getOpenRegDeviceAllocator;
using c10::openreg::getOpenRegHostAllocator;

py::dict toDict(const Stat& stat) {
  py::dict dict;
  dict["current"] = stat.current;
  dict["peak"] = stat.peak;
  dict["allocated"] = stat.allocated;
  dict["freed"] = stat.freed;
  return dict;
}

py::dict toDict(const StatArray& stats) {
  const auto of = [&](StatType type) {
    return toDict(stats[static_cast<size_t>(type)]);
  };
  py::dict dict;
  dict["all"] = of(StatType::AGGREGATE);
  dict["small_pool"] = of(StatType::SMALL_POOL);
  dict["large_pool"] = of(StatType::LARGE_POOL);
  return dict;
}

c10::openreg::PluggedAllocator toAllocator(intptr_t allocate, intptr_t free) {
  c10::openreg::PluggedAllocator functions;
  functions.allocate = reinterpret_cast<decltype(functions.allocate)>(allocate);
  functions.free = reinterpret_cast<decltype(functions.free)>(free);
  return functions;
}

// The keys of torch.cuda.memory_stats_as_nested_dict().
py::dict memoryStats(int64_t device) {
  const auto stats =
      getOpenRegDeviceAllocator().getDeviceStats(toIndex(device));
  py::dict dict;
  dict["allocation"] = toDict(stats.allocation);
  dict["segment"] = toDict(stats.segment);
  dict["active"] = toDict(stats.active);
  dict["inactive_split"] = toDict(stats.inactive_split);
  dict["allocated_bytes"] = toDict(stats.allocated_bytes);
  dict["reserved_bytes"] = toDict(stats.reserved_bytes);
  dict["active_bytes"] = toDict(stats.active_bytes);
  dict["inactive_split_bytes"] = toDict(stats.inactive_split_bytes);
  dict["requested_bytes"] = toDict(stats.requested_bytes);
  dict["oversize_allocations"] = toDict(stats.oversize_allocations);
  dict["oversize_segments"] = toDict(stats.oversize_segments);
  py::dict pools;
  for (const auto& [id, reserved] : stats.reserved_bytes_by_private_pools) {
    pools[py::make_tuple(id.first, id.second)] = toDict(reserved);
  }
  dict["reserved_bytes_by_private_pools"] = pools;
  dict["num_alloc_retries"] = stats.num_alloc_retries;
  dict["num_ooms"] = stats.num_ooms;
  dict["num_sync_all_streams"] = stats.num_sync_all_streams;
  dict["num_device_alloc"] = stats.num_device_alloc;
  dict["num_device_free"] = stats.num_device_free;
  dict["max_split_size"] = stats.max_split_size;
  return dict;
}

void resetPeakStats(int64_t device) {
  getOpenRegDeviceAllocator().resetPeakStats(toIndex(device));
}

void resetAccumulatedStats(int64_t device) {
  getOpenRegDeviceAllocator().resetAccumulatedStats(toIndex(device));
}

// --- pinned memory ---

py::dict toDict(const c10::CachingAllocator::DurationStat& stat) {
  py::dict dict;
  dict["total"] = stat.total;
  dict["max"] = stat.max;
  dict["min"] = stat.min;
  dict["count"] = stat.count;
  dict["avg"] = stat.count == 0 ? 0 : stat.total / stat.count;
  return dict;
}

// The keys of torch.cuda.host_memory_stats_as_nested_dict().
py::dict hostMemoryStats() {
  const auto stats = getOpenRegHostAllocator()->get_stats();
  py::dict dict;
  dict["active_requests"] = toDict(stats.active_requests);
  dict["active_bytes"] = toDict(stats.active_bytes);
  dict["allocations"] = toDict(stats.allocations);
  dict["allocated_bytes"] = toDict(stats.allocated_bytes);
  dict["host_alloc_time"] = toDict(stats.host_alloc_time);
  dict["host_free_time"] = toDict(stats.host_free_time);
  dict["num_host_alloc"] = stats.num_host_alloc;
  dict["num_host_free"] = stats.num_host_free;
  return dict;
}

// {free, total}
std::pair<size_t, size_t> memGetInfo(int64_t device) {
  return getOpenRegDeviceAllocator().getMemoryInfo(toIndex(device));
}

} // namespace

void addMemory(py::module_& module) {
  module.def("_hostMemoryStats", torch::wrap_pybind_function(hostMemoryStats));
  module.def("_resetPeakHostStats", torch::wrap_pybind_function([] {
               getOpenRegHostAllocator()->reset_peak_stats();
             }));
  module.def("_resetAccumulatedHostStats", torch::wrap_pybind_function([] {
               getOpenRegHostAllocator()->reset_accumulated_stats();
             }));
  module.def("_emptyHostCache", torch::wrap_pybind_function_no_gil([] {
               getOpenRegHostAllocator()->empty_cache();
             }));
  module.def("_reloadAllocatorConfig", torch::wrap_pybind_function([] {
               getOpenRegDeviceAllocator().reloadConfig();
             }));
  module.def("_cachingEnabled", torch::wrap_pybind_function([] {
               return c10::openreg::cachingEnabled();
             }));
  module.def(
      "_enableCaching",
      torch::wrap_pybind_function(
          [](bool value) { c10::openreg::enableCaching(value); }),
      py::arg("value"));
  module.def("_allocatorInitialized", [] {
    return getOpenRegDeviceAllocator().initialized();
  });
  module.def("_isPlugged", [] { return c10::openreg::isPlugged(); });
  module.def(
      "_plugAllocator",
      torch::wrap_pybind_function([](intptr_t allocate, intptr_t free) {
        c10::openreg::plugAllocator(toAllocator(allocate, free));
      }),
      py::arg("allocate"),
      py::arg("free"));
  module.def(
      "_plugPool",
      torch::wrap_pybind_function([](int64_t device,
                                     const c10::openreg::PoolId& id,
                                     intptr_t allocate,
                                     intptr_t free) {
        getOpenRegDeviceAllocator().plugPool(
            toExistingIndex(device), id, toAllocator(allocate, free));
      }),
      py::arg("device"),
      py::arg("id"),
      py::arg("allocate"),
      py::arg("free"));
  module.def("_emptyCache", torch::wrap_pybind_function_no_gil([] {
               getOpenRegDeviceAllocator().emptyCache();
             }));
  module.def(
      "_memoryStats",
      torch::wrap_pybind_function(memoryStats),
      py::arg("device"));
  module.def(
      "_resetPeakStats",
      torch::wrap_pybind_function(resetPeakStats),
      py::arg("device"));
  module.def(
      "_resetAccumulatedStats",
      torch::wrap_pybind_function(resetAccumulatedStats),
      py::arg("device"));
  module.def(
      "_memoryFraction", torch::wrap_pybind_function([](int64_t device) {
        return getOpenRegDeviceAllocator().memoryFraction(toIndex(device));
      }));
  module.def(
      "_setMemoryFraction",
      torch::wrap_pybind_function([](double fraction, int64_t device) {
        getOpenRegDeviceAllocator().setMemoryFraction(
            fraction, toIndex(device));
      }));
  module.def(
      "_libraryPeak",
      torch::wrap_pybind_function([](int64_t device) {
        return at::native::openreg::libraryPeak(toIndex(device));
      }),
      py::arg("device"));
  module.def(
      "_resetLibraryPeak",
      torch::wrap_pybind_function([](int64_t device) {
        at::native::openreg::resetLibraryPeak(toIndex(device));
      }),
      py::arg("device"));
  module.def(
      "_memGetInfo",
      torch::wrap_pybind_function(memGetInfo),
      py::arg("device"));
}

} // namespace torch::openreg
