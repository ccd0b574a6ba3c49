// Functions of libopenreg itself, for torch.openreg.openregrt(): those that
// PyTorch's module of CUDA's runtime has.
#include "Module.h"

#include "runtime/OpenRegFunctions.h"

namespace torch::openreg {
namespace {

void* address(uintptr_t value) {
  return reinterpret_cast<void*>(value);
}

} // namespace

void addRuntime(py::module_& module) {
  auto runtime = module.def_submodule(
      "_openregrt",
      "Functions of libopenreg; those that can fail return a code.");
  runtime.def("orGetErrorName", [](int code) {
    return orGetErrorName(static_cast<orError_t>(code));
  });
  runtime.def("orGetErrorString", [](int code) {
    return orGetErrorString(static_cast<orError_t>(code));
  });
  runtime.def(
      "orHostRegister",
      [](uintptr_t pointer, size_t size, unsigned flags) {
        return static_cast<int>(orHostRegister(address(pointer), size, flags));
      },
      py::call_guard<py::gil_scoped_release>());
  runtime.def(
      "orHostUnregister",
      [](uintptr_t pointer) {
        return static_cast<int>(orHostUnregister(address(pointer)));
      },
      py::call_guard<py::gil_scoped_release>());
  // Takes the address at which to write the handle.
  runtime.def("orStreamCreate", [](uintptr_t place) {
    return static_cast<int>(
        orStreamCreate(static_cast<orStream_t*>(address(place))));
  });
  runtime.def("orStreamDestroy", [](uintptr_t stream) {
    return static_cast<int>(
        orStreamDestroy(static_cast<orStream_t>(address(stream))));
  });
}

} // namespace torch::openreg
