// Random numbers: the generator of each device.
#include "Module.h"

#include "runtime/OpenRegGenerator.h"

namespace torch::openreg {

void addGenerator(py::module_& module) {
  module.def(
      "_getDefaultGenerator",
      torch::wrap_pybind_function([](int64_t device) {
        return c10::openreg::getDefaultOpenRegGenerator(
            toExistingIndex(device));
      }),
      py::arg("device"));
}

} // namespace torch::openreg
