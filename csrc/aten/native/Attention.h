// Attention: the choice of an implementation, and the overrideable pair.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace at::native::openreg {

/// The overrideable pair where the CPU would choose its flash kernel, which the
/// pair runs; else PyTorch's composite. So the numbers are the CPU's.
int64_t _fused_sdp_choice(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const std::optional<Tensor>& attn_mask,
    double dropout_p,
    bool is_causal,
    std::optional<double> scale,
    bool enable_gqa);

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
    bool return_debug_mask,
    std::optional<double> scale);

std::tuple<Tensor, Tensor, Tensor, Tensor>
_scaled_dot_product_fused_attention_overrideable_backward(
    const Tensor& grad_out,
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& attn_bias,
    std::array<bool, 4> grad_input_mask,
    const Tensor& out,
    const Tensor& logsumexp,
    const Tensor& cum_seq_q,
    const Tensor& cum_seq_k,
    SymInt max_q,
    SymInt max_k,
    double dropout_p,
    bool is_causal,
    const Tensor& philox_seed,
    const Tensor& philox_offset,
    std::optional<double> scale);

} // namespace at::native::openreg
