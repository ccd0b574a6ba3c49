// Registration of the operators that PyTorch routes through entry points made for
// other backends.
#include "aten/native/Attention.h"
#include "aten/native/Convolution.h"

#include <ATen/native/transformers/attention.h>
#include "runtime/OpenRegLibrary.h"

namespace at::native {

namespace ops = openreg;

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(ops::_fused_sdp_choice));
  m.impl(
      "_scaled_dot_product_fused_attention_overrideable",
      TORCH_FN(ops::_scaled_dot_product_fused_attention_overrideable));
  m.impl(
      "_scaled_dot_product_fused_attention_overrideable_backward",
      TORCH_FN(ops::_scaled_dot_product_fused_attention_overrideable_backward));
  m.impl(
      "convolution_backward_overrideable",
      TORCH_FN(ops::convolution_backward_overrideable));
  m.impl("convolution_overrideable", TORCH_FN(ops::convolution_overrideable));
}

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &ops::_fused_sdp_choice)

} // namespace at::native
