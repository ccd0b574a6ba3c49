#include "aten/native/Attention.h"

#include "executor/OperatorKernel.h"

#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>

namespace at::native::openreg {

// docs:begin sdp-choice
int64_t _fused_sdp_choice(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const std::optional<Tensor>& attn_mask,
    double dropout_p,
    bool is_causal,
    std::optional<double> scale,
    bool enable_gqa) {
  // The flash kernel has no gradient of the mask.
  if (attn_mask && attn_mask->defined() && attn_mask->requires_grad()) {
    return static_cast<int64_t>(SDPBackend::math);
  }
  const int64_t cpuChoice = at::native::_fused_sdp_choice_cpp(
      query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
  return static_cast<int64_t>(
      cpuChoice == static_cast<int64_t>(SDPBackend::flash_attention)
          ? SDPBackend::overrideable
          : SDPBackend::math);
}
// docs:end sdp-choice

std::tuple<
    Tensor,
    Tensor,
    Tensor,
    Tensor,
    SymInt,
    SymInt,
    Tensor,
    Tensor,
    Tensor>
_scaled_dot_product_fused_attention_overrideable(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const std::optional<Tensor>& attn_bias,
    double dropout_p,
    bool is_causal,
    bool /*return_debug_mask*/,
    std::optional<double> scale) {
  auto [output, logsumexp] =
      CachedKernel<at::_ops::_scaled_dot_product_flash_attention_for_cpu>::call(
          query, key, value, dropout_p, is_causal, attn_bias, scale);
  return {
      std::move(output),
      std::move(logsumexp),
      Tensor(),
      Tensor(),
      query.sym_size(2),
      key.sym_size(2),
      Tensor(),
      Tensor(),
      Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor>
_scaled_dot_product_fused_attention_overrideable_backward(
    const Tensor& grad_out,
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& attn_bias,
    std::array<bool, 4> /*grad_input_mask*/,
    const Tensor& out,
    const Tensor& logsumexp,
    const Tensor& /*cum_seq_q*/,
    const Tensor& /*cum_seq_k*/,
    SymInt /*max_q*/,
    SymInt /*max_k*/,
    double dropout_p,
    bool is_causal,
    const Tensor& /*philox_seed*/,
    const Tensor& /*philox_offset*/,
    std::optional<double> scale) {
  auto [grad_query, grad_key, grad_value] = CachedKernel<
      at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward>::
      call(
          grad_out,
          query,
          key,
          value,
          out,
          logsumexp,
          dropout_p,
          is_causal,
          attn_bias.defined() ? std::optional(attn_bias) : std::nullopt,
          scale);
  return {
      std::move(grad_query),
      std::move(grad_key),
      std::move(grad_value),
      Tensor()}; // of the mask: see _fused_sdp_choice()
}

} // namespace at::native::openreg
