// Operators that made the host wait.
#include "Module.h"

#include "executor/FallbackCount.h"

#include <pybind11/stl.h>

namespace torch::openreg {

void addFallback(py::module_& module) {
  using at::native::openreg::FallbackCount;
  module.def("_fallbackReport", torch::wrap_pybind_function([] {
               std::vector<std::pair<std::string, uint64_t>> report;
               for (const auto& [name, calls] : FallbackCount::report()) {
                 report.emplace_back(name, calls);
               }
               return report;
             }));
  module.def("_resetFallbackReport", torch::wrap_pybind_function([] {
               FallbackCount::reset();
             }));
}

} // namespace torch::openreg
