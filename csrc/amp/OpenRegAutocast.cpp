// Autocast: which operators run in the lower precision, which in float32. The
// lists are PyTorch's own, those of CUDA.
#include <ATen/autocast_mode.h>

namespace at::autocast {
namespace {

// CUDA's kernel does nothing but explain why the operator is refused.
Tensor binaryCrossEntropyBanned(
    const Tensor& self,
    const Tensor& target,
    const std::optional<Tensor>& weight,
    int64_t reduction) {
  return _ops::binary_cross_entropy::redispatch(
      DispatchKeySet(DispatchKey::AutocastCUDA),
      self,
      target,
      weight,
      reduction);
}

} // namespace

// docs:begin autocast
// Operators that are in no list run with the arguments they get.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER_PRECISION(...) \
  KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FP32_SET_DTYPE(...) \
  KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FP32_SET_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(
      KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(PROMOTE)

  // A layer of an LSTM: in place of cuDNN's operator.
  LOWER_PRECISION(mkldnn_rnn_layer)
  m.impl("binary_cross_entropy", TORCH_FN(binaryCrossEntropyBanned));
}
// docs:end autocast

// Where the device stands in for CUDA, PyTorch's lists for that apply.
TORCH_LIBRARY_IMPL(aten, AutocastCUDA, m) {
  KERNEL_CUDA(mkldnn_rnn_layer, lower_precision_fp)
}

} // namespace at::autocast
