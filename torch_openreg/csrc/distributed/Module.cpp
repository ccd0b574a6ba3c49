// torch_openreg._distributed: process groups of openreg devices.
#include "distributed/FlightRecorder.h"
#include "distributed/ProcessGroupOCCL.h"
#include "distributed/SymmetricMemory.h"
#include "runtime/OpenRegDeviceType.h"

#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

namespace torch::openreg {
namespace {

using c10::openreg::occl::ProcessGroupOCCL;
using Options = ProcessGroupOCCL::Options;

c10::intrusive_ptr<c10d::Backend> makeEngine(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    std::chrono::milliseconds timeout) {
  const py::gil_scoped_acquire acquired;
  const auto c10d = py::module_::import("torch._C._distributed_c10d");
  return c10d.attr("ProcessGroupGloo")(store, rank, size, timeout)
      .cast<c10::intrusive_ptr<c10d::Backend>>();
}

using OptionsClass =
    py::class_<Options, c10::intrusive_ptr<Options>, c10d::Backend::Options>;

// What ProcessGroupNCCL.Options has beside those of occl.
void addNcclOptions(py::handle scope, OptionsClass& options) {
  using c10::openreg::occl::NcclConfig;
  py::class_<NcclConfig>(scope, "NCCLConfig", "Kept, and changes nothing.")
      .def(py::init<>())
      .def_readwrite("blocking", &NcclConfig::blocking)
      .def_readwrite("cga_cluster_size", &NcclConfig::cga_cluster_size)
      .def_readwrite("min_ctas", &NcclConfig::min_ctas)
      .def_readwrite("max_ctas", &NcclConfig::max_ctas)
      .def_readwrite("split_share", &NcclConfig::split_share)
      .def_readwrite("traffic_class", &NcclConfig::traffic_class)
      .def_readwrite("collnet_enable", &NcclConfig::collnet_enable)
      .def_readwrite("cta_policy", &NcclConfig::cta_policy)
      .def_readwrite("nvls_ctas", &NcclConfig::nvls_ctas)
      .def_readwrite("net_name", &NcclConfig::net_name);
  options
      .def_readwrite("config", &Options::config)
      // c10d names the group that NCCL could take connections from. occl makes its own.
      .def_property(
          "split_from",
          [](const Options&) { return py::none(); },
          [](Options&, const py::object&) {})
      .def_property(
          "split_color",
          [](const Options&) { return 0; },
          [](Options&, int64_t) {});
}

void addOptions(py::handle scope) {
  OptionsClass options(
      scope, "Options", "What a process group of occl can be told.");
  if (c10::openreg::kDeviceType == c10::DeviceType::CUDA) {
    addNcclOptions(scope, options);
  }
  options
      .def(
          py::init([](bool is_high_priority_stream) {
            auto options = c10::make_intrusive<Options>();
            options->is_high_priority_stream = is_high_priority_stream;
            return options;
          }),
          py::arg("is_high_priority_stream") = false)
      .def_readwrite(
          "is_high_priority_stream", &Options::is_high_priority_stream)
      .def_readwrite("global_ranks_in_group", &Options::global_ranks_in_group)
      .def_readwrite("group_name", &Options::group_name)
      .def(
          "__copy__",
          [](const Options& self) {
            return c10::make_intrusive<Options>(self);
          })
      .def("__deepcopy__", [](const Options& self, const py::dict&) {
        return c10::make_intrusive<Options>(self);
      });
}

void addGroup(py::module_& module) {
  const auto release = py::call_guard<py::gil_scoped_release>();
  py::class_<
      ProcessGroupOCCL,
      c10::intrusive_ptr<ProcessGroupOCCL>,
      c10d::Backend>
      group(module, "ProcessGroupOCCL", "Collectives between openreg devices.");
  addOptions(group);
  group
      .def(
          py::init([](const c10::intrusive_ptr<c10d::Store>& store,
                      int rank,
                      int size,
                      const c10::intrusive_ptr<Options>& options) {
            const py::gil_scoped_release released;
            return c10::make_intrusive<ProcessGroupOCCL>(
                store, rank, size, options);
          }),
          py::arg("store"),
          py::arg("rank"),
          py::arg("size"),
          py::arg("options"))
      .def_property_readonly(
          "transport",
          &ProcessGroupOCCL::transportName,
          "How bytes travel between the ranks.")
      .def_property_readonly(
          "options",
          [](ProcessGroupOCCL& self) {
            return c10::static_intrusive_pointer_cast<Options>(
                self.getBackendOptions());
          })
      // Ranks outside of a group that is split off have nothing to do.
      .def("perform_nocolor_split", [](ProcessGroupOCCL&, const py::object&) {})
      // What ProcessGroupNCCL calls it; Inductor does after a hit of its cache.
      .def("_add_ephemeral_timeout", &ProcessGroupOCCL::extendTimeout)
      .def("_set_default_timeout", &ProcessGroupOCCL::setTimeout)
      .def("get_error", &ProcessGroupOCCL::getError, release)
      .def("abort", &ProcessGroupOCCL::abort, release)
      .def("_shutdown", &ProcessGroupOCCL::shutdown, release)
      .def(
          "monitored_barrier",
          [](ProcessGroupOCCL& self,
             std::chrono::milliseconds timeout,
             bool waitAllRanks) {
            c10d::BarrierOptions options;
            options.timeout = timeout;
            self.monitoredBarrier(options, waitAllRanks);
          },
          py::arg("timeout") = c10d::kUnsetTimeout,
          py::arg("wait_all_ranks") = false,
          release);
}

// What passed the links of OPENREG_TOPOLOGY: a dictionary per group and kind of call.
py::list listTraffic() {
  py::list rows;
  for (const auto& [key, sum] :
       c10::openreg::occl::TrafficLedger::instance().sums()) {
    py::dict row;
    row["group"] = key.group;
    row["ranks"] = key.ranks;
    row["call"] = key.call;
    row["calls"] = sum.calls;
    row["inside"] = sum.inside;
    row["between"] = sum.between;
    row["seconds"] = sum.seconds;
    rows.append(row);
  }
  return rows;
}

} // namespace

PYBIND11_MODULE(_distributed, module) {
  py::module_::import("torch._C._distributed_c10d"); // has the base classes
  ProcessGroupOCCL::setEngineFactory(makeEngine);
  addGroup(module);
  module.def("_traffic", &listTraffic);
  module.def("_check_topology", [](const std::string& text) {
    const auto made = c10::openreg::occl::Topology::parse(text);
    return std::pair(made.hosts, made.devices);
  });
  module.def(
      "_dump_fr_trace",
      [](bool calls, bool stacks, bool onlyActive) {
        return py::bytes(c10::openreg::occl::FlightRecorder::get().dump(
            calls, stacks, onlyActive));
      },
      py::arg("includeCollectives") = true,
      py::arg("includeStackTraces") = true,
      py::arg("onlyActive") = false,
      "The last calls, pickled, as "
      "torch._C._distributed_c10d._dump_fr_trace().");
  c10::openreg::occl::setUnlockedCall([](const auto& call) {
    std::optional<py::gil_scoped_release> released;
    if (PyGILState_Check() != 0) {
      released.emplace();
    }
    call();
  });
}

} // namespace torch::openreg
