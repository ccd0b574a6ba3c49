// Kernels of torch.compile, and what the code around them calls often.
#include "Module.h"

#include "aten/native/Minimal.h"
#include "executor/CompiledCalls.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/THP.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_numbers.h>

#include <array>
#include <bit>
#include <utility>

namespace torch::openreg {
namespace {

using at::native::openreg::CompiledKernel;
using Parameter = CompiledKernel::Parameter;

using FastCall = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

// METH_FASTCALL says what it really is.
PyCFunction asMethod(FastCall function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// --- kernels ----------------------------------------------------------------------

/// The bits of a number: C++ sees an int64_t or a float.
uint64_t toWord(PyObject* value) {
  if (PyFloat_Check(value)) {
    return std::bit_cast<uint32_t>(
        static_cast<float>(PyFloat_AS_DOUBLE(value)));
  }
  return static_cast<uint64_t>(THPUtils_unpackLong(value));
}

CompiledKernel::Value toValue(
    const CompiledKernel& kernel,
    size_t place,
    PyObject* value) {
  if (kernel.parameters()[place] == Parameter::Number) {
    return {nullptr, toWord(value)};
  }
  TORCH_CHECK_TYPE(
      THPVariable_Check(value),
      kernel.name(),
      "(): argument ",
      place,
      " must be a tensor, but got ",
      Py_TYPE(value)->tp_name);
  return {&THPVariable_Unpack(value), 0};
}

PyObject* callKernel(
    PyObject* self,
    PyObject* const* arguments,
    Py_ssize_t count) {
  HANDLE_TH_ERRORS
  const auto& kernel =
      *static_cast<CompiledKernel*>(PyCapsule_GetPointer(self, nullptr));
  const size_t expected = kernel.parameters().size();
  TORCH_CHECK_TYPE(
      static_cast<size_t>(count) == expected,
      kernel.name(),
      "() takes ",
      expected,
      " arguments, but got ",
      count);
  c10::SmallVector<CompiledKernel::Value, 12> values;
  for (size_t i = 0; i < expected; ++i) {
    values.push_back(toValue(kernel, i, arguments[i]));
  }
  {
    // Where the queue is full, what it waits for may need Python.
    const py::gil_scoped_release release;
    kernel.launch({values.data(), values.size()});
  }
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyMethodDef kernelMethod = {
    "compiled_kernel",
    asMethod(&callKernel),
    METH_FASTCALL,
    "A kernel of torch.compile in the current stream of its tensors."};

/// `parameters`: a letter for each, r for reads, w for writes, n for a number. `key`: how
/// compiled C++ finds it; empty if only Python calls it.
py::object loadKernel(
    const std::string& library,
    const std::string& name,
    const std::string& parameters,
    int threads,
    const std::string& key,
    double nanoseconds) {
  std::vector<Parameter> kinds;
  for (const char letter : parameters) {
    TORCH_CHECK_VALUE(
        std::string_view("rwn").find(letter) != std::string_view::npos,
        "expected letters r, w and n, but got '",
        parameters,
        "'");
    kinds.push_back(
        letter == 'r'       ? Parameter::Reads
            : letter == 'w' ? Parameter::Writes
                            : Parameter::Number);
  }
  // Never freed: queued work and graphs refer to it.
  auto* kernel =
      new CompiledKernel(library, name, std::move(kinds), threads, nanoseconds);
  if (!key.empty()) {
    at::native::openreg::addCompiledKernel(key, *kernel);
  }
  const py::capsule self(kernel);
  return py::reinterpret_steal<py::object>(
      PyCFunction_New(&kernelMethod, self.ptr()));
}

// --- memory -----------------------------------------------------------------------

c10::SmallVector<int64_t, 8> toNumbers(PyObject* tuple) {
  TORCH_CHECK_TYPE(
      PyTuple_Check(tuple),
      "expected a tuple of int, but got ",
      Py_TYPE(tuple)->tp_name);
  c10::SmallVector<int64_t, 8> numbers;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    numbers.push_back(THPUtils_unpackLong(PyTuple_GET_ITEM(tuple, i)));
  }
  return numbers;
}

/// torch.empty_strided() without the parser, for a device that exists.
PyObject* emptyStrided(
    PyObject* /*module*/,
    PyObject* const* arguments,
    Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(
      count == 4 && THPDtype_Check(arguments[2]),
      "expected a size, a stride, a dtype and the index of a device");
  const auto sizes = toNumbers(arguments[0]);
  const auto strides = toNumbers(arguments[1]);
  const auto dtype = reinterpret_cast<THPDtype*>(arguments[2])->scalar_type;
  const c10::Device device(
      c10::openreg::kDeviceType,
      toExistingIndex(THPUtils_unpackLong(arguments[3])));
  return THPVariable_Wrap(at::native::openreg::empty_strided(
      sizes, strides, dtype, std::nullopt, device, std::nullopt));
  END_HANDLE_TH_ERRORS
}

PyMethodDef emptyStridedMethod = {
    "_emptyStrided",
    asMethod(&emptyStrided),
    METH_FASTCALL,
    "(size, stride, dtype, index): a new tensor of that device."};

// --- products of matrices ---------------------------------------------------------

at::Tensor& toTensor(PyObject* value) {
  TORCH_CHECK_TYPE(
      THPVariable_Check(value),
      "expected a tensor, but got ",
      Py_TYPE(value)->tp_name);
  return const_cast<at::Tensor&>(THPVariable_Unpack(value));
}

at::Scalar toScalar(PyObject* value) {
  return PyFloat_Check(value) ? at::Scalar(PyFloat_AS_DOUBLE(value))
                              : at::Scalar(THPUtils_unpackLong(value));
}

void checkCount(Py_ssize_t count, Py_ssize_t expected) {
  TORCH_CHECK_TYPE(
      count == expected, "expected ", expected, " arguments, but got ", count);
}

/// Calls an operator below autograd, as all compiled code runs, and without Python.
template <class Operator, class... Arguments>
PyObject* callBelow(Arguments&&... arguments) {
  const py::gil_scoped_release release;
  const at::AutoDispatchBelowADInplaceOrView below;
  Operator::call(std::forward<Arguments>(arguments)...);
  return Py_NewRef(Py_None);
}

/// torch.mm(a, b, out=out), or bmm, without the parser.
template <class Operator>
PyObject* multiply(
    PyObject* /*module*/,
    PyObject* const* arguments,
    Py_ssize_t count) {
  HANDLE_TH_ERRORS
  checkCount(count, 3);
  return callBelow<Operator>(
      toTensor(arguments[0]), toTensor(arguments[1]), toTensor(arguments[2]));
  END_HANDLE_TH_ERRORS
}

/// torch.addmm(c, a, b, alpha=alpha, beta=beta, out=out), or baddbmm.
template <class Operator>
PyObject* multiplyAndAdd(
    PyObject* /*module*/,
    PyObject* const* arguments,
    Py_ssize_t count) {
  HANDLE_TH_ERRORS
  checkCount(count, 6);
  return callBelow<Operator>(
      toTensor(arguments[0]),
      toTensor(arguments[1]),
      toTensor(arguments[2]),
      toScalar(arguments[4]),
      toScalar(arguments[3]),
      toTensor(arguments[5]));
  END_HANDLE_TH_ERRORS
}

PyMethodDef productMethod(const char* name, FastCall function) {
  return {name, asMethod(function), METH_FASTCALL, "A product of matrices."};
}

std::array productMethods = {
    productMethod("_mm", &multiply<at::_ops::mm_out>),
    productMethod("_bmm", &multiply<at::_ops::bmm_out>),
    productMethod("_addmm", &multiplyAndAdd<at::_ops::addmm_out>),
    productMethod("_baddbmm", &multiplyAndAdd<at::_ops::baddbmm_out>)};

} // namespace

void addCompiled(py::module_& module) {
  module.def(
      "_loadKernel",
      torch::wrap_pybind_function(&loadKernel),
      py::arg("library"),
      py::arg("name"),
      py::arg("parameters"),
      py::arg("threads"),
      py::arg("key") = "",
      py::arg("nanoseconds") = 0.0);
  module.attr("_emptyStrided") = py::reinterpret_steal<py::object>(
      PyCFunction_New(&emptyStridedMethod, nullptr));
  for (PyMethodDef& method : productMethods) {
    module.attr(method.ml_name) =
        py::reinterpret_steal<py::object>(PyCFunction_New(&method, nullptr));
  }
}

} // namespace torch::openreg
