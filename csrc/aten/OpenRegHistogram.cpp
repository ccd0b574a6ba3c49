// Registration of histograms: the CPU has no kernel for those of integers.
#include "aten/native/Histogram.h"

#include "runtime/OpenRegLibrary.h"

namespace at::native {

namespace ops = openreg;

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("histc", TORCH_FN(ops::histc));
  m.impl("histc.out", TORCH_FN(ops::histc_out));
}

} // namespace at::native
