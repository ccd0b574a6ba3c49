// Random numbers: the generator of each device.
#include "Module.h"

#include "runtime/OpenRegGenerator.h"

namespace torch::openreg {

void addGenerator(py::module_& module) {
  c10::openreg::checkRngSetting();
  module.attr("_draws_philox") = c10::openreg::drawsPhilox();
  module.def(
      "_getDefaultGenerator",
      torch::wrap_pybind_function([](int64_t device) {
        return c10::openreg::getDefaultOpenRegGenerator(
            toExistingIndex(device));
      }),
      py::arg("device"));
  // The methods of a generator wait for queued draws with Python's lock held, which
  // another thread may need to let those end. This waits without it.
  module.def(
      "_settledGenerator",
      torch::wrap_pybind_function_no_gil([](int64_t device) {
        const at::Generator& generator =
            c10::openreg::getDefaultOpenRegGenerator(toExistingIndex(device));
        c10::openreg::stateOf(generator)->settle();
        return generator;
      }),
      py::arg("device"));
}

} // namespace torch::openreg
