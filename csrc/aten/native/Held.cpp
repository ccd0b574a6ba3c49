#include "aten/native/Held.h"

namespace at::native::openreg {

Tensor hold(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cpu()) {
    return aliasForLaunch(tensor);
  }
  Tensor copy = tensor.clone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    copy.unsafeGetTensorImpl()->set_wrapped_number(true); // clone() drops it
  }
  return copy;
}

} // namespace at::native::openreg
