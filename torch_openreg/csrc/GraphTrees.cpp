// What cudagraph trees need beside graphs and pools: tensors without owners, and
// words for those who touch memory that a replay has overwritten.
#include "Module.h"

#include <ATen/EmptyTensor.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/python_variable.h>

namespace torch::openreg {
namespace {

/// A tensor of openreg on a storage, by the keys that trees write down.
at::Tensor makeTensor(const py::dict& metadata, const at::Storage& storage) {
  const auto dtype = metadata["dtype"].cast<at::ScalarType>();
  const auto sizes = metadata["size"].cast<std::vector<int64_t>>();
  const auto strides = metadata["stride"].cast<std::vector<int64_t>>();
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage),
      c10::openreg::kKeySet,
      c10::scalarTypeToTypeMeta(dtype));
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_offset(metadata["storage_offset"].cast<int64_t>());
  impl->set_sizes_and_strides(sizes, strides);
  return tensor;
}

/// Whether the tensors at these places are at the same addresses as before.
bool pointersAreEqual(
    const py::list& tensors,
    const py::list& pointers,
    const py::list& places) {
  for (const auto place : places) {
    const auto index = place.cast<py::ssize_t>();
    PyObject* tensor = PyList_GetItem(tensors.ptr(), index);
    PyObject* pointer = PyList_GetItem(pointers.ptr(), index);
    if (tensor == nullptr || pointer == nullptr) {
      throw py::error_already_set();
    }
    if (pointer == Py_None) {
      continue;
    }
    TORCH_CHECK_TYPE(
        THPVariable_Check(tensor),
        "input ",
        index,
        " of a graph must be a tensor, but got ",
        Py_TYPE(tensor)->tp_name);
    const void* now = THPVariable_Unpack(tensor).const_data_ptr();
    if (reinterpret_cast<uintptr_t>(now) != THPUtils_unpackUInt64(pointer)) {
      return false;
    }
  }
  return true;
}

} // namespace

void addGraphTrees(py::module_& module) {
  module.def(
      "_makeTensor",
      torch::wrap_pybind_function(makeTensor),
      py::arg("metadata"),
      py::arg("storage"));
  module.def(
      "_pointersAreEqual",
      torch::wrap_pybind_function(pointersAreEqual),
      py::arg("tensors"),
      py::arg("pointers"),
      py::arg("places"));
  module.def(
      "_refuseStorage",
      torch::wrap_pybind_function(
          [](const at::Storage& storage, std::string why) {
            storage.unsafeGetStorageImpl()
                ->release_data_and_set_meta_custom_data_ptr_error_msg_(
                    std::move(why));
          }),
      py::arg("storage"),
      py::arg("why"));
}

} // namespace torch::openreg
