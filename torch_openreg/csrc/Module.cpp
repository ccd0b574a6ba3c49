#include "Module.h"

#include "aten/OpenRegExecutor.h"
#include "aten/OpenRegStrict.h"

namespace torch::openreg {
namespace {

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "torch_openreg._C",
    "The C++ side of torch.openreg.",
    -1,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr};

} // namespace
} // namespace torch::openreg

/// Makes the module; PyInit__C in stub.c calls it.
extern "C" __attribute__((visibility("default"))) PyObject* initOpenRegModule(
    void) {
  HANDLE_TH_ERRORS
  using namespace torch::openreg;
  auto module =
      py::reinterpret_steal<py::module_>(PyModule_Create(&definition));
  if (!module) {
    return nullptr;
  }
  at::openreg::registerExecutor();
  at::openreg::registerStrict();
  addCompiled(module);
  addDevice(module);
  addEvent(module);
  addFallback(module);
  addFaults(module);
  addGenerator(module);
  addGraph(module);
  addGraphTrees(module);
  addIpc(module);
  addMemory(module);
  addMemoryAnnotations(module);
  addMemoryHistory(module);
  addProfiler(module);
  addRuntime(module);
  addSanitizer(module);
  addSchedule(module);
  addStream(module);
  addTensor(module);
  return module.release().ptr();
  END_HANDLE_TH_ERRORS
}
