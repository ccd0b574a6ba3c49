#include "aten/native/Attention.h"

#include "aten/native/Strict.h"
#include "executor/OperatorKernel.h"

#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>

#include <array>
#include <string>

namespace at::native::openreg {
namespace {

using sdp::sdp_params;

// What each of CUDA's kernels refuses; with `says` it warns why, in CUDA's words.

bool sameHeads(const sdp_params& of) {
  return of.query.sym_size(-1) == of.key.sym_size(-1) &&
      of.query.sym_size(-1) == of.value.sym_size(-1);
}

std::string headsOf(const sdp_params& of) {
  return c10::str(
      "Got Query.size(-1): ",
      of.query.sym_size(-1),
      ", Key.size(-1): ",
      of.key.sym_size(-1),
      ", Value.size(-1): ",
      of.value.sym_size(-1),
      " instead.");
}

bool flashTakes(const sdp_params& of, bool says) {
  if (!sdp::check_runtime_disabled_flash(of, says) ||
      !sdp::check_tensor_shapes(of, says) ||
      !sdp::check_for_attn_mask(of, says)) {
    return false;
  }
  if (!sameHeads(of) || of.query.sym_size(-1) > 256) {
    if (says) {
      TORCH_WARN(
          "Flash attention requires q,k,v to have the same last dimension and "
          "to "
          "be less than or equal to 256. ",
          headsOf(of));
    }
    return false;
  }
  return sdp::check_tensor_dtype(of, std::array{kHalf, kBFloat16}, says);
}

bool memoryEfficientTakes(const sdp_params& of, bool says) {
  if (!sdp::check_runtime_disabled_mem_efficient(of, says) ||
      !sdp::check_tensor_shapes(of, says)) {
    return false;
  }
  const int64_t unit = of.query.scalar_type() == kFloat ? 4 : 8;
  if (of.query.scalar_type() != kDouble &&
      isFloatingType(of.query.scalar_type()) &&
      (of.query.sym_size(-1) % unit != 0 ||
       of.value.sym_size(-1) % unit != 0)) {
    if (says) {
      TORCH_WARN(
          "Mem efficient attention requires last dimension of inputs to be "
          "divisible by ",
          unit,
          ". ",
          headsOf(of));
    }
    return false;
  }
  return sdp::check_tensor_dtype(
      of, std::array{kHalf, kFloat, kBFloat16}, says);
}

bool cudnnTakes(const sdp_params& of, bool says) {
  if (!globalContext().userEnabledCuDNNSDP()) {
    if (says) {
      TORCH_WARN("cuDNN attention has been runtime disabled.");
    }
    return false;
  }
  if (!sdp::check_tensor_shapes(of, says) ||
      !sdp::check_tensor_dtype(of, std::array{kHalf, kBFloat16}, says)) {
    return false;
  }
  if (of.query.sym_size(-1) % 8 != 0 || of.query.sym_size(-1) > 256) {
    if (says) {
      TORCH_WARN(
          "cuDNN attention requires last dimension of inputs to be divisible "
          "by "
          "8 and to be at most 256. ",
          headsOf(of));
    }
    return false;
  }
  return true;
}

bool someKernelTakes(const sdp_params& of) {
  return flashTakes(of, false) || memoryEfficientTakes(of, false) ||
      cudnnTakes(of, false);
}

void refuseAttention(const sdp_params& of) {
  TORCH_WARN("Memory efficient kernel not used because:");
  memoryEfficientTakes(of, true);
  TORCH_WARN("Flash attention kernel not used because:");
  flashTakes(of, true);
  TORCH_WARN("CuDNN attention kernel not used because:");
  cudnnTakes(of, true);
  TORCH_CHECK(false, "No available kernel. Aborting execution.");
}

// Whether the CPU's flash kernel has code for it: PyTorch's own checks, except whether
// flash attention is switched off.
bool fusedKernelTakes(const sdp_params& of) {
  return sdp::check_nested_tensor(of, false) &&
      sdp::check_for_dropout(of, false) &&
      sdp::check_tensor_shapes(of, false) && sameHeads(of) &&
      sdp::check_batch_size_and_num_heads_dense<false>(of, false) &&
      sdp::check_attn_mask_shape(of, false) &&
      sdp::check_nonzero_sequence_lengths_dense(of, false) &&
      sdp::check_last_dim_stride_equals_1_dense<false>(of, false) &&
      sdp::check_tensor_dtype(
             of, std::array{kFloat, kDouble, kBFloat16, kHalf}, false);
}

} // namespace

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
  const auto& context = globalContext();
  const sdp_params params{
      query, key, value, attn_mask, dropout_p, is_causal, enable_gqa};
  const bool isDense = sdp::has_only_dense_inputs(params);
  if (strict() && isDense && !context.userEnabledMathSDP() &&
      !someKernelTakes(params)) {
    refuseAttention(params);
  }
  // One kernel stands in for all that CUDA has.
  if (!context.userEnabledFlashSDP() && isDense &&
      (context.userEnabledMemEfficientSDP() || context.userEnabledCuDNNSDP()) &&
      !context.userEnabledMathSDP()) {
    return static_cast<int64_t>(
        fusedKernelTakes(params) ? SDPBackend::overrideable : SDPBackend::math);
  }
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
