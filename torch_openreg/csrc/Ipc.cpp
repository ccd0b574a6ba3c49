// Sharing between processes.
#include "Module.h"

#include "runtime/ipc/SentBlocks.h"
#include "runtime/ipc/SharedEvent.h"
#include "runtime/ipc/SharedStorage.h"

namespace torch::openreg {

namespace ipc = c10::openreg::ipc;

void addIpc(py::module_& module) {
  module.def(
      "_sendStorage",
      torch::wrap_pybind_function([](const at::Storage& storage) {
        std::string message;
        {
          const py::gil_scoped_release release;
          message = ipc::sendStorage(storage);
        }
        return py::bytes(message);
      }),
      py::arg("storage"));
  module.def(
      "_receiveStorage",
      torch::wrap_pybind_function([](const py::bytes& message) {
        return ipc::receiveStorage(message);
      }),
      py::arg("message"));
  module.def("_ipcCollect", torch::wrap_pybind_function([] {
               const py::gil_scoped_release release;
               ipc::sentBlocks().collect();
             }));
  module.def(
      "_createSharedEvent",
      torch::wrap_pybind_function(
          [](py::handle event, int64_t device, bool timed) {
            ipc::createSharedEvent(
                toEvent(event), toExistingIndex(device), timed);
          }),
      py::arg("event"),
      py::arg("device"),
      py::arg("timed"));
  module.def(
      "_shareEvent",
      torch::wrap_pybind_function([](py::handle event) {
        return py::bytes(ipc::shareEvent(toEvent(event)));
      }),
      py::arg("event"));
  module.def(
      "_openSharedEvent",
      torch::wrap_pybind_function(
          [](py::handle event, int64_t device, const py::bytes& handle) {
            ipc::openSharedEvent(
                toEvent(event), toExistingIndex(device), handle);
          }),
      py::arg("event"),
      py::arg("device"),
      py::arg("handle"));
}

} // namespace torch::openreg
