// Registration of operators for tensors that are not strided.
#include "aten/native/Copy.h"
#include "aten/native/Nested.h"

#include "runtime/OpenRegLibrary.h"

namespace at::native {

namespace ops = openreg;

// A copy of quantized tensors is one of bytes.
OPENREG_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("_copy_from", TORCH_FN(ops::_copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(ops::_copy_from_and_resize));
}

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_nested_view_from_buffer", TORCH_FN(ops::_nested_view_from_buffer));
}

} // namespace at::native
