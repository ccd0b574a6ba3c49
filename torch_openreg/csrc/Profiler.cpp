// What torch.openreg.profiler needs of the profiler.
#include "Module.h"

#include "profiler/OpenRegRanges.h"

namespace torch::openreg {

void addProfiler(py::module_& module) {
  module.def("_emitRanges", c10::openreg::profiler::emitRanges);
  module.def("_stopRanges", c10::openreg::profiler::stopRanges);
}

} // namespace torch::openreg
