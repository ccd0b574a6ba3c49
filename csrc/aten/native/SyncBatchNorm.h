// The parts of batch normalisation that nn.SyncBatchNorm puts together across ranks.
// CUDA has kernels for them and the CPU has not. All are queued.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace at::native::openreg {

/// Mean and inverse standard deviation of each channel. Of half and bfloat16 they are
/// float, as in all that follows.
std::tuple<Tensor, Tensor> batch_norm_stats(const Tensor& input, double eps);

/// Those of all ranks together, from a row of each rank and how many elements it had
/// per channel. Brings the running statistics up to date, where there are some.
std::tuple<Tensor, Tensor> batch_norm_gather_stats_with_counts(
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const std::optional<Tensor>& running_mean,
    const std::optional<Tensor>& running_var,
    double momentum,
    double eps,
    const Tensor& counts);

/// The same with as many elements in each rank.
std::tuple<Tensor, Tensor> batch_norm_gather_stats(
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const std::optional<Tensor>& running_mean,
    const std::optional<Tensor>& running_var,
    double momentum,
    double eps,
    int64_t count);

/// `(input - mean) * invstd * weight + bias`.
Tensor batch_norm_elemt(
    const Tensor& input,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    const Tensor& mean,
    const Tensor& invstd,
    double eps);
Tensor& batch_norm_elemt_out(
    const Tensor& input,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    const Tensor& mean,
    const Tensor& invstd,
    double eps,
    Tensor& out);

/// For each channel the sums of `grad_out` and of `grad_out * (input - mean)`, which the
/// ranks add up, and the gradients of weight and bias. Those not asked for are
/// undefined.
std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_backward_reduce(
    const Tensor& grad_out,
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const std::optional<Tensor>& weight,
    bool input_g,
    bool weight_g,
    bool bias_g);

/// The gradient of the input, from the sums of all ranks and their numbers of elements.
Tensor batch_norm_backward_elemt(
    const Tensor& grad_out,
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const std::optional<Tensor>& weight,
    const Tensor& sum_dy,
    const Tensor& sum_dy_xmu,
    const Tensor& count);

} // namespace at::native::openreg
