// Registration of products with a dtype for the result: the CPU has no kernels for them.
#include "aten/native/WideProducts.h"

#include "runtime/OpenRegLibrary.h"

namespace at::native {

namespace ops = openreg;

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("addmm.dtype", TORCH_FN(ops::addmm_dtype));
  m.impl("addmm.dtype_out", TORCH_FN(ops::addmm_dtype_out));
  m.impl("baddbmm.dtype", TORCH_FN(ops::baddbmm_dtype));
  m.impl("baddbmm.dtype_out", TORCH_FN(ops::baddbmm_dtype_out));
  m.impl("bmm.dtype", TORCH_FN(ops::bmm_dtype));
  m.impl("bmm.dtype_out", TORCH_FN(ops::bmm_dtype_out));
  m.impl("mm.dtype", TORCH_FN(ops::mm_dtype));
  m.impl("mm.dtype_out", TORCH_FN(ops::mm_dtype_out));
}

} // namespace at::native
