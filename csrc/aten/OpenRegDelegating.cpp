// Registration of those kernels of PyTorch that serve all devices, because they call
// other operators.
#include <ATen/ops/relu_native.h>
#include "runtime/OpenRegLibrary.h"

namespace at::native {

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("relu", TORCH_FN(at::native::relu));
  m.impl("relu_", TORCH_FN(at::native::relu_));
}

} // namespace at::native
