// Registration of random operators that have no generator argument.
#include "aten/native/Random.h"

#include "runtime/OpenRegLibrary.h"
#include "runtime/OpenRegPhilox.h"

namespace at::native {

namespace ops = openreg;

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  if (c10::openreg::drawsPhilox()) {
    return; // OpenRegPhilox.cpp has them
  }
  m.impl("native_dropout", TORCH_FN(ops::native_dropout));
  m.impl("native_dropout_backward", TORCH_FN(ops::native_dropout_backward));
}

} // namespace at::native
