// Graphs: captures and replays.
#include "Module.h"

#include "graphs/ExternalEvent.h"
#include "graphs/GraphMemory.h"
#include "graphs/OpenRegGraph.h"
#include "runtime/OpenRegCapture.h"

#include <torch/csrc/Event.h>

namespace torch::openreg {
namespace {

using c10::openreg::OpenRegGraph;
using Pool = std::pair<uint64_t, uint64_t>;

at::GraphCaptureMode toMode(const std::string& name) {
  if (name == "global") {
    return at::GraphCaptureMode::Global;
  }
  if (name == "thread_local") {
    return at::GraphCaptureMode::ThreadLocal;
  }
  TORCH_CHECK(
      name == "relaxed",
      "Unknown capture error mode. Expected `global`, `thread_local`, or "
      "`relaxed`, got ",
      name);
  return at::GraphCaptureMode::Relaxed;
}

void captureBegin(
    OpenRegGraph& graph,
    const std::optional<Pool>& pool,
    const std::string& mode) {
  graph.capture_begin(pool.value_or(Pool{0, 0}), toMode(mode));
}

template <class Handle>
uintptr_t numberOf(Handle handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

const char* nameOf(orGraphNodeType type) {
  switch (type) {
    case orGraphNodeTypeKernel:
      return "kernel";
    case orGraphNodeTypeMemcpy:
      return "memcpy";
    case orGraphNodeTypeMemset:
      return "memset";
    case orGraphNodeTypeHost:
      return "host";
    case orGraphNodeTypeGraph:
      return "child_graph";
    case orGraphNodeTypeWaitEvent:
      return "wait_event";
    case orGraphNodeTypeEventRecord:
      return "event_record";
    case orGraphNodeTypeEmpty:
      break;
  }
  return "empty";
}

// {kinds of nodes, edges}
py::tuple topologyOf(const OpenRegGraph& graph) {
  const auto topology = graph.topology();
  std::vector<std::string> nodes;
  for (const orGraphNodeType type : topology.nodes) {
    nodes.emplace_back(nameOf(type));
  }
  return py::make_tuple(nodes, topology.edges);
}

// --- events -------------------------------------------------------------------

c10::Event& unwrap(py::handle event) {
  TORCH_CHECK(THPEvent_Check(event.ptr()), "expected a torch.openreg.Event");
  return reinterpret_cast<THPEvent*>(event.ptr())->event;
}

c10::openreg::OpenRegStream toStream(int64_t id, int64_t device) {
  return c10::openreg::OpenRegStream(c10::Stream(
      c10::Stream::UNSAFE,
      c10::Device(c10::openreg::kDeviceType, toExistingIndex(device)),
      id));
}

void addExternalEvents(py::module_& module) {
  module.def(
      "_recordExternalEvent",
      torch::wrap_pybind_function(
          [](py::handle event, int64_t stream, int64_t device, bool timed) {
            c10::openreg::recordExternalEvent(
                unwrap(event), toStream(stream, device), timed);
          }),
      py::arg("event"),
      py::arg("stream_id"),
      py::arg("device_index"),
      py::arg("timed"));
  module.def(
      "_waitForExternalEvent",
      torch::wrap_pybind_function(
          [](py::handle event, int64_t stream, int64_t device) {
            c10::openreg::waitForExternalEvent(
                unwrap(event), toStream(stream, device));
          }),
      py::arg("event"),
      py::arg("stream_id"),
      py::arg("device_index"));
}

// --- memory -------------------------------------------------------------------

using c10::openreg::PoolCheckpoint;
std::vector<c10::StorageImpl*> implsOf(
    const std::vector<at::Storage>& storages) {
  std::vector<c10::StorageImpl*> impls;
  for (const at::Storage& storage : storages) {
    impls.push_back(storage.unsafeGetStorageImpl());
  }
  return impls;
}

void restorePool(
    int64_t device,
    const PoolCheckpoint& checkpoint,
    const std::vector<at::Storage>& stale,
    const std::vector<at::Storage>& live) {
  c10::openreg::restorePool(
      toExistingIndex(device), checkpoint, implsOf(stale), implsOf(live));
}

void addGraphMemory(py::module_& module) {
  py::class_<PoolCheckpoint>(module, "_PoolCheckpoint");
  module.def(
      "_getCheckpointState",
      torch::wrap_pybind_function([](int64_t device, const Pool& pool) {
        return c10::openreg::checkpointOf(toExistingIndex(device), pool);
      }),
      py::arg("device"),
      py::arg("id"));
  module.def(
      "_setCheckpointPoolState",
      torch::wrap_pybind_function(restorePool),
      py::arg("device"),
      py::arg("state"),
      py::arg("stale_storages"),
      py::arg("live_storages"));
  module.def(
      "_freeUnowned",
      torch::wrap_pybind_function([](uintptr_t pointer) {
        return c10::openreg::freeUnowned(reinterpret_cast<void*>(pointer));
      }),
      py::arg("pointer"));
  module.def(
      "_freeAndRemoveDeleter",
      torch::wrap_pybind_function([](const at::Storage& storage) {
        c10::openreg::freeNow(*storage.unsafeGetStorageImpl());
      }),
      py::arg("storage"));
  module.def(
      "_hasStandardDeleter",
      torch::wrap_pybind_function([](const at::Storage& storage) {
        return c10::openreg::ownsMemory(*storage.unsafeGetStorageImpl());
      }),
      py::arg("storage"));
  module.def(
      "_poolLiveAllocations",
      torch::wrap_pybind_function([](int64_t device, const Pool& pool) {
        return c10::openreg::liveAllocations(toExistingIndex(device), pool);
      }),
      py::arg("device"),
      py::arg("id"));
}

} // namespace

void addGraph(py::module_& module) {
  // The GIL is given away: work of other threads may be waited for.
  py::class_<OpenRegGraph>(module, "_OpenRegGraph")
      .def(
          py::init([](bool keepGraph) {
            return std::make_unique<OpenRegGraph>(
                at::GraphImplArgs{.keep_graph = keepGraph});
          }),
          py::arg("keep_graph") = false)
      .def(
          "capture_begin",
          torch::wrap_pybind_function_no_gil(captureBegin),
          py::arg("pool") = py::none(),
          py::arg("capture_error_mode") = "global")
      .def(
          "capture_end",
          torch::wrap_pybind_function_no_gil(&OpenRegGraph::capture_end))
      .def(
          "instantiate",
          torch::wrap_pybind_function_no_gil(&OpenRegGraph::instantiate))
      .def("replay", torch::wrap_pybind_function_no_gil(&OpenRegGraph::replay))
      .def("reset", torch::wrap_pybind_function_no_gil(&OpenRegGraph::reset))
      .def("pool", torch::wrap_pybind_function_no_gil(&OpenRegGraph::pool))
      .def(
          "enable_debug_mode",
          torch::wrap_pybind_function_no_gil(&OpenRegGraph::enable_debug_mode))
      .def(
          "debug_dump",
          torch::wrap_pybind_function_no_gil(&OpenRegGraph::debug_dump),
          py::arg("debug_path"))
      .def(
          "register_generator_state",
          torch::wrap_pybind_function(&OpenRegGraph::register_generator_state),
          py::arg("generator"))
      .def(
          "raw_openreg_graph",
          torch::wrap_pybind_function(
              [](OpenRegGraph& graph) { return numberOf(graph.raw_graph()); }))
      .def("_topology", torch::wrap_pybind_function(topologyOf))
      .def(
          "raw_openreg_graph_exec",
          torch::wrap_pybind_function([](OpenRegGraph& graph) {
            return numberOf(graph.raw_graph_exec());
          }));
  addExternalEvents(module);
  addGraphMemory(module);
  module.def(
      "_graphPoolHandle",
      torch::wrap_pybind_function(&c10::openreg::graph_pool_handle));
  module.def("_isCurrentStreamCapturing", torch::wrap_pybind_function([] {
               return c10::openreg::isCapturing(
                   c10::openreg::getCurrentOpenRegStream());
             }));
}

} // namespace torch::openreg
