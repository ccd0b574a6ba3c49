// What the backend knows about a tensor beyond its numbers.
#include "Module.h"

#include "runtime/OpenRegHooks.h"
#include "runtime/OpenRegSerialization.h"
#include "runtime/OpenRegStorage.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/tensor_new.h>

namespace torch::openreg {

namespace {

// The values are pickled, so they are bytes and no text.
py::dict toPython(const c10::openreg::Description& description) {
  py::dict entries;
  for (const auto& [name, value] : description) {
    entries[py::str(name)] = py::bytes(value);
  }
  return entries;
}

void addDescriptions(py::module_& module) {
  module.def(
      "_describe",
      torch::wrap_pybind_function(
          [](const c10::Storage& storage,
             const std::map<std::string, py::bytes>& entries) {
            c10::openreg::describe(storage, {entries.begin(), entries.end()});
          }),
      py::arg("storage"),
      py::arg("entries"));
  module.def(
      "_description",
      torch::wrap_pybind_function([](const c10::Storage& storage) {
        return toPython(c10::openreg::descriptionOf(storage));
      }),
      py::arg("storage"));
  module.def(
      "_descriptionsAt",
      torch::wrap_pybind_function([](uintptr_t begin, uintptr_t end) {
        py::list found;
        for (const auto& description : c10::openreg::descriptionsAt(
                 reinterpret_cast<const char*>(begin),
                 reinterpret_cast<const char*>(end))) {
          found.append(toPython(description));
        }
        return found;
      }),
      py::arg("begin"),
      py::arg("end"));
}

} // namespace

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
  addDescriptions(module);
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
