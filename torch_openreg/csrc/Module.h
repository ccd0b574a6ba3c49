// What the files of the Python module share. Each adds the functions of its
// noun to torch_openreg._C; all they do is convert and call.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

namespace torch::openreg {

void addCompiled(py::module_& module);
void addDevice(py::module_& module);
void addEvent(py::module_& module);
void addFallback(py::module_& module);
void addFaults(py::module_& module);
void addGenerator(py::module_& module);
void addGraph(py::module_& module);
void addGraphTrees(py::module_& module);
void addIpc(py::module_& module);
void addMemory(py::module_& module);
void addMemoryAnnotations(py::module_& module);
void addMemoryHistory(py::module_& module);
void addProfiler(py::module_& module);
void addRuntime(py::module_& module);
void addSanitizer(py::module_& module);
void addSchedule(py::module_& module);
void addStream(py::module_& module);
void addTensor(py::module_& module);

/// A device index from Python. A c10::DeviceIndex has eight bits, so a number
/// that does not fit would name another device; throws for those.
c10::DeviceIndex toIndex(int64_t device);

/// The same, but throws unless there is such a device.
c10::DeviceIndex toExistingIndex(int64_t device);

/// The event in a torch.Event or an object of a class derived from it; throws for
/// anything else.
c10::Event& toEvent(py::handle event);

} // namespace torch::openreg
