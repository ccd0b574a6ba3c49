// Sharing between processes.
#include "Module.h"

#include "runtime/OpenRegIpc.h"

#include <torch/csrc/Event.h>

namespace torch::openreg {
namespace {

c10::Event& unwrap(py::handle event) {
  TORCH_CHECK(THPEvent_Check(event.ptr()), "expected a torch.openreg.Event");
  return reinterpret_cast<THPEvent*>(event.ptr())->event;
}

} // namespace

void addIpc(py::module_& module) {
  module.def(
      "_sendStorage",
      torch::wrap_pybind_function([](const at::Storage& storage) {
        std::string message;
        {
          const py::gil_scoped_release release;
          message = c10::openreg::sendStorage(storage);
        }
        return py::bytes(message);
      }),
      py::arg("storage"));
  module.def(
      "_receiveStorage",
      torch::wrap_pybind_function([](const py::bytes& message) {
        return c10::openreg::receiveStorage(message);
      }),
      py::arg("message"));
  module.def("_ipcCollect", torch::wrap_pybind_function([] {
               const py::gil_scoped_release release;
               c10::openreg::collectSent();
             }));
  module.def(
      "_createSharedEvent",
      torch::wrap_pybind_function(
          [](py::handle event, int64_t device, bool timed) {
            c10::openreg::createSharedEvent(
                unwrap(event), toExistingIndex(device), timed);
          }),
      py::arg("event"),
      py::arg("device"),
      py::arg("timed"));
  module.def(
      "_shareEvent",
      torch::wrap_pybind_function([](py::handle event) {
        return py::bytes(c10::openreg::shareEvent(unwrap(event)));
      }),
      py::arg("event"));
  module.def(
      "_openSharedEvent",
      torch::wrap_pybind_function(
          [](py::handle event, int64_t device, const py::bytes& handle) {
            c10::openreg::openSharedEvent(
                unwrap(event), toExistingIndex(device), handle);
          }),
      py::arg("event"),
      py::arg("device"),
      py::arg("handle"));
}

} // namespace torch::openreg
