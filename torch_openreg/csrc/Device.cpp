// Devices: which there are, which is current, what they are like.
#include "Module.h"

#include "remote/Reset.h"
#include "runtime/OpenRegFunctions.h"
#include "runtime/OpenRegShutdown.h"
#include "runtime/OpenRegSyncDebug.h"

#include <ATen/Context.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <array>
#include <cstdio>
#include <limits>
#include <string>

namespace torch::openreg {

c10::DeviceIndex toIndex(int64_t device) {
  using Limits = std::numeric_limits<c10::DeviceIndex>;
  TORCH_CHECK(
      device >= Limits::min() && device <= Limits::max(),
      "invalid device ordinal: Device index value ",
      device,
      " is out of index range [0, ",
      static_cast<int>(c10::openreg::device_count()),
      ")");
  return static_cast<c10::DeviceIndex>(device);
}

c10::DeviceIndex toExistingIndex(int64_t device) {
  const c10::DeviceIndex index = toIndex(device);
  c10::openreg::check_device_index(index);
  return index;
}

namespace {

using c10::DeviceType;

struct Uuid {
  std::array<unsigned char, 16> bytes;

  // 8-4-4-4-12 hexadecimal digits.
  std::string str() const {
    std::string text;
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::array<char, 3> digits{};
      std::snprintf(digits.data(), digits.size(), "%02x", bytes[i]);
      text += (i == 4 || i == 6 || i == 8 || i == 10) ? "-" : "";
      text += digits.data();
    }
    return text;
  }
};

Uuid uuidOf(const orDeviceProp& properties) {
  return {std::to_array(properties.uuid)};
}

std::string describe(const py::object& self) {
  constexpr size_t kMiB = 1 << 20;
  const auto& properties = self.cast<const orDeviceProp&>();
  return c10::str(
      py::type::of(self).attr("__name__").cast<std::string>(),
      "(name='",
      properties.name,
      "', major=",
      properties.major,
      ", minor=",
      properties.minor,
      ", total_memory=",
      properties.totalGlobalMem / kMiB,
      "MB, multi_processor_count=",
      properties.multiProcessorCount,
      ", uuid=",
      uuidOf(properties).str(),
      ", pci_bus_id=",
      properties.pciBusID,
      ", pci_device_id=",
      properties.pciDeviceID,
      ", pci_domain_id=",
      properties.pciDomainID,
      ", L2_cache_size=",
      properties.l2CacheSize / kMiB,
      "MB)");
}

// A fork after this leaves the child in bad fork, whether or not a thread of the
// device runs by then: as on CUDA, and the same every time.
void init() {
  torch::utils::register_fork_handler_for_device_init(
      c10::openreg::kDeviceType);
  at::globalContext().lazyInitDevice(c10::openreg::kDeviceType);
}

// From here on torch does not ask `_lazy_init` any more. Before that, calls that
// concern a device which no tensor was on, torch.accelerator.synchronize(), do
// nothing, though streams may have work.
void noteStart() {
  torch::utils::set_requires_device_init(c10::openreg::kDeviceType, false);
}

// torch knows of forks after init(), libopenreg of those after its first work,
// which C++ code may have queued without init().
bool isInBadFork() {
  return torch::utils::is_device_in_bad_fork(c10::openreg::kDeviceType) ||
      c10::openreg::is_in_bad_fork();
}

void addProperties(py::module_& module) {
  py::class_<Uuid>(module, "_OpenRegUuid")
      .def_property_readonly(
          "bytes",
          [](const Uuid& uuid) {
            return std::vector<int>(uuid.bytes.begin(), uuid.bytes.end());
          })
      .def("__str__", &Uuid::str)
      .def("__repr__", &Uuid::str);

  py::class_<orDeviceProp>(module, "_OpenRegDeviceProperties")
      .def_property_readonly(
          "name", [](const orDeviceProp& self) { return self.name; })
      .def_property_readonly("uuid", &uuidOf)
      .def_readonly("total_memory", &orDeviceProp::totalGlobalMem)
      .def_readonly("major", &orDeviceProp::major)
      .def_readonly("minor", &orDeviceProp::minor)
      .def_readonly("multi_processor_count", &orDeviceProp::multiProcessorCount)
      .def_readonly("warp_size", &orDeviceProp::warpSize)
      .def_readonly("max_threads_per_block", &orDeviceProp::maxThreadsPerBlock)
      .def_readonly(
          "max_threads_per_multi_processor",
          &orDeviceProp::maxThreadsPerMultiProcessor)
      .def_readonly(
          "regs_per_multiprocessor", &orDeviceProp::regsPerMultiprocessor)
      .def_readonly("shared_memory_per_block", &orDeviceProp::sharedMemPerBlock)
      .def_readonly(
          "shared_memory_per_block_optin",
          &orDeviceProp::sharedMemPerBlockOptin)
      .def_readonly(
          "shared_memory_per_multiprocessor",
          &orDeviceProp::sharedMemPerMultiprocessor)
      .def_readonly("L2_cache_size", &orDeviceProp::l2CacheSize)
      .def_readonly("clock_rate", &orDeviceProp::clockRate)
      .def_readonly("memory_clock_rate", &orDeviceProp::memoryClockRate)
      .def_readonly("memory_bus_width", &orDeviceProp::memoryBusWidth)
      .def_readonly("is_integrated", &orDeviceProp::integrated)
      .def_readonly("is_multi_gpu_board", &orDeviceProp::isMultiGpuBoard)
      .def_readonly("pci_domain_id", &orDeviceProp::pciDomainID)
      .def_readonly("pci_bus_id", &orDeviceProp::pciBusID)
      .def_readonly("pci_device_id", &orDeviceProp::pciDeviceID)
      // As on CUDA, where the field is for another vendor's devices.
      .def_property_readonly(
          "gcnArchName", [](const orDeviceProp& self) { return self.name; })
      .def("__repr__", &describe);

  module.def(
      "_getDeviceProperties",
      torch::wrap_pybind_function([](int64_t device) {
        return c10::openreg::get_device_properties(toIndex(device));
      }),
      py::arg("device"));
}

} // namespace

void addDevice(py::module_& module) {
  addProperties(module);
  module.def("_init", torch::wrap_pybind_function_no_gil(init));
  module.def("_noteStart", torch::wrap_pybind_function(noteStart));
  module.def("_settleAutogradThreads", torch::wrap_pybind_function_no_gil([] {
               c10::openreg::settle_autograd_threads();
             }));
  module.def(
      "_hasPrimaryContext",
      torch::wrap_pybind_function([](int64_t device) {
        return c10::openreg::is_initialized(toExistingIndex(device));
      }),
      py::arg("device"));
  module.def("_isInBadFork", torch::wrap_pybind_function(isInBadFork));
  module.def("_getDeviceCount", torch::wrap_pybind_function([] {
               return c10::openreg::device_count();
             }));
  module.def(
      "_getDevice", torch::wrap_pybind_function(c10::openreg::current_device));
  module.def(
      "_setDevice",
      torch::wrap_pybind_function(
          [](int64_t device) { c10::openreg::set_device(toIndex(device)); }),
      py::arg("device"));
  module.def(
      "_exchangeDevice",
      torch::wrap_pybind_function([](int64_t device) {
        return c10::openreg::ExchangeDevice(toIndex(device));
      }),
      py::arg("device"));
  module.def(
      "_canDeviceAccessPeer",
      torch::wrap_pybind_function([](int64_t device, int64_t peer) {
        return c10::openreg::can_device_access_peer(
            toIndex(device), toIndex(peer));
      }),
      py::arg("device"),
      py::arg("peer"));
  module.def(
      "_synchronize",
      torch::wrap_pybind_function_no_gil(c10::openreg::device_synchronize));
  module.def(
      "_getUtilization",
      torch::wrap_pybind_function_no_gil([](int64_t device) {
        return c10::openreg::device_utilization(toIndex(device));
      }),
      py::arg("device"));
  module.def("_getSyncDebugMode", torch::wrap_pybind_function([] {
               return static_cast<int>(c10::openreg::get_sync_debug_mode());
             }));
  module.def(
      "_setSyncDebugMode",
      torch::wrap_pybind_function(c10::openreg::set_sync_debug_mode),
      py::arg("mode"));
  module.def(
      "_resetDevice",
      torch::wrap_pybind_function_no_gil([](int64_t device) {
        c10::openreg::reset_device(toExistingIndex(device));
      }),
      py::arg("device"));
}

} // namespace torch::openreg
