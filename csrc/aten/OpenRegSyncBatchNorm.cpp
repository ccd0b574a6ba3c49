// Registration of nn.SyncBatchNorm's parts, which the CPU has no kernels for.
#include "aten/native/SyncBatchNorm.h"

#include "runtime/OpenRegLibrary.h"

namespace at::native {

namespace ops = openreg;

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("batch_norm_backward_elemt", TORCH_FN(ops::batch_norm_backward_elemt));
  m.impl(
      "batch_norm_backward_reduce", TORCH_FN(ops::batch_norm_backward_reduce));
  m.impl("batch_norm_elemt", TORCH_FN(ops::batch_norm_elemt));
  m.impl("batch_norm_elemt.out", TORCH_FN(ops::batch_norm_elemt_out));
  m.impl("batch_norm_gather_stats", TORCH_FN(ops::batch_norm_gather_stats));
  m.impl(
      "batch_norm_gather_stats_with_counts",
      TORCH_FN(ops::batch_norm_gather_stats_with_counts));
  m.impl("batch_norm_stats", TORCH_FN(ops::batch_norm_stats));
}

} // namespace at::native
