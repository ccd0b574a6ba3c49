// Functions of libopenreg itself, for torch.openreg.openregrt(): those that
// PyTorch's module of CUDA's runtime has.
#include "Module.h"

#include "runtime/OpenRegRuntimeCalls.h"

namespace torch::openreg {

void addRuntime(py::module_& module) {
  auto runtime = module.def_submodule(
      "_openregrt",
      "Functions of libopenreg; those that can fail return a code.");
  runtime.def("orGetErrorName", c10::openreg::error_name);
  runtime.def("orGetErrorString", c10::openreg::error_string);
  runtime.def(
      "orHostRegister",
      c10::openreg::host_register,
      py::call_guard<py::gil_scoped_release>());
  runtime.def(
      "orHostUnregister",
      c10::openreg::host_unregister,
      py::call_guard<py::gil_scoped_release>());
  runtime.def("orStreamCreate", c10::openreg::stream_create);
  runtime.def("orStreamDestroy", c10::openreg::stream_destroy);
}

} // namespace torch::openreg
