// Registration of random operators that have no generator argument.
#include "aten/native/Random.h"

#include "runtime/OpenRegLibrary.h"

namespace at::native {

namespace ops = openreg;

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_dropout", TORCH_FN(ops::native_dropout));
  m.impl("native_dropout_backward", TORCH_FN(ops::native_dropout_backward));
}

} // namespace at::native
