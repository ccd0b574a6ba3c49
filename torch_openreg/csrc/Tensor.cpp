// What the backend knows about a tensor beyond its numbers.
#include "Module.h"

#include "runtime/OpenRegSerialization.h"

#include <pybind11/stl.h>

namespace torch::openreg {

void addTensor(py::module_& module) {
  module.def(
      "_getTensorFlags",
      torch::wrap_pybind_function([](const at::Tensor& tensor) {
        return c10::openreg::getTensorFlags(tensor);
      }));
  module.def(
      "_setTensorFlag",
      torch::wrap_pybind_function(
          [](const at::Tensor& tensor, std::string name, bool value) {
            c10::openreg::setTensorFlag(tensor, std::move(name), value);
          }));
}

} // namespace torch::openreg
