// What the backend knows about a tensor beyond its numbers.
#include "Module.h"

#include "runtime/OpenRegHooks.h"
#include "runtime/OpenRegSerialization.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/tensor_new.h>

namespace torch::openreg {

void addTensor(py::module_& module) {
  // The constructor of torch.openreg.FloatTensor and its like.
  module.def(
      "_legacyTensor",
      torch::wrap_pybind_function([](bool sparse,
                                     at::ScalarType dtype,
                                     const py::tuple& arguments,
                                     const py::dict& options) {
        return torch::utils::legacy_tensor_ctor(
            c10::openreg::servedKey(
                sparse ? c10::DispatchKey::SparsePrivateUse1
                       : c10::DispatchKey::PrivateUse1),
            dtype,
            arguments.ptr(),
            options.ptr());
      }),
      py::arg("sparse"),
      py::arg("dtype"),
      py::arg("arguments"),
      py::arg("options"));
  // PyTorch's own is left out of a build without CUDA.
  module.def(
      "_resizeStorage",
      torch::wrap_pybind_function(
          [](const c10::Storage& storage, int64_t bytes) {
            TORCH_CHECK(
                bytes >= 0,
                "a storage cannot be resized to ",
                bytes,
                " bytes; the size must be 0 or more");
            c10::openreg::resizeStorage(storage, bytes);
          }),
      py::arg("storage"),
      py::arg("bytes"));
  module.def(
      "_getTensorFlags",
      torch::wrap_pybind_function([](const at::Tensor& tensor) {
        return c10::openreg::getTensorFlags(tensor);
      }));
  module.def(
      "_setTensorFlag",
      torch::wrap_pybind_function(
          [](const at::Tensor& tensor, const std::string& name, bool value) {
            c10::openreg::setTensorFlag(tensor, name, value);
          }));
}

} // namespace torch::openreg
