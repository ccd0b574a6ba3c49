// Registration of the operators that find bad data only when they run, and that are
// written by hand.
#include "aten/native/DataChecks.h"
#include "aten/native/Embedding.h"

#include "runtime/OpenRegLibrary.h"

namespace at::native {

namespace ops = openreg;

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_assert_async", TORCH_FN(ops::_assert_async));
  m.impl("_assert_async.msg", TORCH_FN(ops::_assert_async_msg));
  m.impl("_index_put_impl_", TORCH_FN(ops::_index_put_impl_));
  m.impl("embedding_dense_backward", TORCH_FN(ops::embedding_dense_backward));
}

} // namespace at::native
