// Fault plans.
#include "Module.h"

#include "runtime/OpenRegFaults.h"

namespace torch::openreg {

void addFaults(py::module_& module) {
  // Not wrapped: pybind11 makes a ValueError of std::invalid_argument.
  module.def("_setFaultPlan", c10::openreg::set_fault_plan, py::arg("text"));
  module.def(
      "_clearFaultPlan",
      torch::wrap_pybind_function(c10::openreg::clear_fault_plan));
  module.def("_faultsPlanned", c10::openreg::faultsPlanned);
  module.def(
      "_faultCount",
      torch::wrap_pybind_function(c10::openreg::fault_count),
      py::arg("kind"));
}

} // namespace torch::openreg
