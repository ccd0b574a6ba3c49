// Events: what torch.Event does not do for its subclasses.
#include "Module.h"

#include <torch/csrc/Event.h>

namespace torch::openreg {
c10::Event& toEvent(py::handle event) {
  TORCH_CHECK(
      THPEvent_Check(event.ptr()),
      "expected other to be a torch.Event or torch.openreg.Event object, but "
      "got ",
      Py_TYPE(event.ptr())->tp_name);
  return reinterpret_cast<THPEvent*>(event.ptr())->event;
}

void addEvent(py::module_& module) {
  // The method of torch.Event takes an event of that very class only.
  module.def(
      "_elapsedTime",
      torch::wrap_pybind_function([](py::handle start, py::handle end) {
        return toEvent(start).elapsedTime(toEvent(end));
      }),
      py::arg("start"),
      py::arg("end"));
}

} // namespace torch::openreg
