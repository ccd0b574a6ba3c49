// Registration of PyTorch's own kernels for all devices: other operators do the work.
#include <ATen/ops/relu_native.h>
#include "runtime/OpenRegLibrary.h"

namespace at::native {

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("relu", TORCH_FN(at::native::relu));
  m.impl("relu_", TORCH_FN(at::native::relu_));
}

} // namespace at::native
