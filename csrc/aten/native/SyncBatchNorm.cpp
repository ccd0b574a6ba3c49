#include "aten/native/SyncBatchNorm.h"

#include "executor/HandKernel.h"
#include "executor/OperatorKernel.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <numeric>

namespace at::native::openreg {
namespace {

Tensor given(const std::optional<Tensor>& tensor) {
  return tensor.value_or(Tensor());
}

void checkInput(const char* name, const Tensor& input) {
  TORCH_CHECK(
      input.dim() >= 2,
      name,
      " needs an input with at least 2 dimensions, but got ",
      input.dim());
  TORCH_CHECK(
      isFloatingType(input.scalar_type()) && input.itemsize() > 1,
      name,
      " needs an input of a floating point dtype, but got ",
      input.scalar_type());
}

// Kernels check nothing: an error in one breaks the device.

void checkDevice(
    const char* name,
    const char* what,
    const Tensor& tensor,
    const Tensor& input) {
  TORCH_CHECK(
      !tensor.defined() || tensor.device() == input.device(),
      name,
      " needs all tensors on one device, but input is on ",
      input.device(),
      " and ",
      what,
      " on ",
      tensor.device());
}

void checkShape(
    const char* name,
    const char* what,
    const Tensor& tensor,
    const Tensor& input,
    IntArrayRef sizes) {
  checkDevice(name, what, tensor, input);
  TORCH_CHECK(
      !tensor.defined() || tensor.sizes() == sizes,
      name,
      " needs ",
      what,
      " of shape ",
      sizes,
      " for an input of shape ",
      input.sizes(),
      ", but got ",
      tensor.sizes());
}

void checkChannels(
    const char* name,
    const Tensor& input,
    std::initializer_list<std::pair<const char*, const Tensor*>> tensors) {
  for (const auto& [what, tensor] : tensors) {
    checkShape(name, what, *tensor, input, {input.size(1)});
  }
}

/// The device process has only the CPU's kernels, and these are ours.
void noteStaysHere(const char* name) {
  if (kernelsRunElsewhere()) {
    FallbackCount::of(name, FallbackKind::StaysHere).note();
  }
}

ScalarType statisticsType(const Tensor& input) {
  return toOpMathType(input.scalar_type());
}

Tensor emptyStatistics(const Tensor& input) {
  return at::empty(
      {input.size(1)}, input.options().dtype(statisticsType(input)));
}

/// A value per channel, in the shape in which it is combined with an input.
Tensor alongChannels(const Tensor& values, const Tensor& input) {
  DimVector shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = input.size(1);
  return values.to(statisticsType(input)).reshape(shape);
}

Tensor sumOverChannel(const Tensor& values) {
  DimVector others(static_cast<size_t>(values.dim()) - 1);
  std::iota(others.begin() + 1, others.end(), 2); // all but dimension 1
  return values.sum(others);
}

Tensor centred(const Tensor& input, const Tensor& mean) {
  return input.to(statisticsType(input)) - alongChannels(mean, input);
}

void follow(const Tensor& running, const Tensor& value, double momentum) {
  if (running.defined()) {
    running.copy_(running.to(kDouble) * (1 - momentum) + value * momentum);
  }
}

} // namespace

std::tuple<Tensor, Tensor> batch_norm_stats(const Tensor& input, double eps) {
  const char* const name = "aten::batch_norm_stats";
  checkInput(name, input);
  TORCH_CHECK(
      input.numel() > 0,
      name,
      " needs an input with elements, but got one of shape ",
      input.sizes());
  noteStaysHere(name);
  Tensor mean = emptyStatistics(input);
  Tensor invstd = emptyStatistics(input);
  launch(
      name,
      streamOf(input),
      {.reads = {&input}, .writes = {&mean, &invstd}},
      [eps](std::span<Tensor> aliases) {
        // Running statistics only say in which dtype the results are to be.
        const Tensor none = at::zeros_like(aliases[1]);
        const auto [mean, variance] = at::batch_norm_update_stats(
            aliases[0], none, at::zeros_like(none), /*momentum=*/0);
        aliases[1].copy_(mean);
        aliases[2].copy_(variance.add(eps).rsqrt());
      });
  return {std::move(mean), std::move(invstd)};
}

std::tuple<Tensor, Tensor> batch_norm_gather_stats_with_counts(
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const std::optional<Tensor>& running_mean,
    const std::optional<Tensor>& running_var,
    double momentum,
    double eps,
    const Tensor& counts) {
  const char* const name = "aten::batch_norm_gather_stats_with_counts";
  checkInput(name, input);
  const Tensor runningMean = given(running_mean);
  const Tensor runningVar = given(running_var);
  checkShape(name, "counts", counts, input, {counts.numel()});
  checkShape(name, "mean", mean, input, {counts.numel(), input.size(1)});
  checkShape(name, "invstd", invstd, input, mean.sizes());
  checkChannels(
      name,
      input,
      {{"running_mean", &runningMean}, {"running_var", &runningVar}});
  noteStaysHere(name);
  Tensor meanOfAll = emptyStatistics(input);
  Tensor invstdOfAll = emptyStatistics(input);
  launch(
      name,
      streamOf(input),
      {.reads = {&mean, &invstd, &counts},
       .writes = {&meanOfAll, &invstdOfAll, &runningMean, &runningVar}},
      [momentum, eps](std::span<Tensor> aliases) {
        const Tensor means = aliases[0].to(kDouble);
        const Tensor variances =
            aliases[1].to(kDouble).pow(-2).sub(eps).clamp_min(0);
        const Tensor count = aliases[2].to(kDouble).unsqueeze(1);
        const Tensor total = count.sum();
        const Tensor mean = (means * count).sum(0) / total;
        const Tensor squares =
            ((variances + (means - mean).square()) * count).sum(0);
        aliases[3].copy_(mean);
        aliases[4].copy_((squares / total).add(eps).rsqrt());
        follow(aliases[5], mean, momentum);
        follow(aliases[6], squares / (total - 1), momentum);
      });
  return {std::move(meanOfAll), std::move(invstdOfAll)};
}

std::tuple<Tensor, Tensor> batch_norm_gather_stats(
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const std::optional<Tensor>& running_mean,
    const std::optional<Tensor>& running_var,
    double momentum,
    double eps,
    int64_t count) {
  TORCH_CHECK(
      mean.dim() == 2,
      "aten::batch_norm_gather_stats needs mean with a row for each rank, but "
      "got shape ",
      mean.sizes());
  const Tensor counts =
      at::full({mean.size(0)}, count, mean.options().dtype(kDouble));
  return openreg::batch_norm_gather_stats_with_counts(
      input, mean, invstd, running_mean, running_var, momentum, eps, counts);
}

Tensor batch_norm_elemt(
    const Tensor& input,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    const Tensor& mean,
    const Tensor& invstd,
    double /*eps*/) {
  const char* const name = "aten::batch_norm_elemt";
  checkInput(name, input);
  const Tensor scale = given(weight);
  const Tensor shift = given(bias);
  checkChannels(
      name,
      input,
      {{"weight", &scale},
       {"bias", &shift},
       {"mean", &mean},
       {"invstd", &invstd}});
  noteStaysHere(name);
  Tensor output = at::empty_like(input, input.suggest_memory_format());
  launch(
      name,
      streamOf(input),
      {.reads = {&input, &mean, &invstd, &scale, &shift}, .writes = {&output}},
      [](std::span<Tensor> aliases) {
        const auto [input, mean, invstd, weight, bias] = std::tie(
            aliases[0], aliases[1], aliases[2], aliases[3], aliases[4]);
        // As the CPU's batch norm: a factor and a term for each channel.
        const Tensor factor = weight.defined() ? invstd * weight : invstd;
        const Tensor term = -mean * factor;
        at::addcmul_out(
            aliases[5],
            alongChannels(bias.defined() ? term + bias : term, input),
            input.to(statisticsType(input)),
            alongChannels(factor, input));
      });
  return output;
}

Tensor& batch_norm_elemt_out(
    const Tensor& input,
    const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    const Tensor& mean,
    const Tensor& invstd,
    double eps,
    Tensor& out) {
  checkDevice("aten::batch_norm_elemt", "out", out, input);
  at::native::resize_output(out, input.sizes());
  return out.copy_(
      openreg::batch_norm_elemt(input, weight, bias, mean, invstd, eps));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_backward_reduce(
    const Tensor& grad_out,
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const std::optional<Tensor>& weight,
    bool input_g,
    bool weight_g,
    bool bias_g) {
  const char* const name = "aten::batch_norm_backward_reduce";
  checkInput(name, input);
  const Tensor scale = given(weight);
  checkShape(name, "grad_out", grad_out, input, input.sizes());
  checkChannels(
      name, input, {{"mean", &mean}, {"invstd", &invstd}, {"weight", &scale}});
  noteStaysHere(name);
  const auto makeIf = [&](bool wanted, const Tensor& like) {
    return wanted && like.defined() ? at::empty_like(like) : Tensor();
  };
  Tensor sum = input_g ? emptyStatistics(input) : Tensor();
  Tensor sumOfProducts = input_g ? emptyStatistics(input) : Tensor();
  Tensor weightGrad = makeIf(weight_g, scale);
  Tensor biasGrad = makeIf(bias_g, scale);
  launch(
      name,
      streamOf(input),
      {.reads = {&grad_out, &input, &mean, &invstd},
       .writes = {&sum, &sumOfProducts, &weightGrad, &biasGrad}},
      [](std::span<Tensor> aliases) {
        const Tensor grad = aliases[0].to(statisticsType(aliases[1]));
        const Tensor sum = sumOverChannel(grad);
        const Tensor products =
            sumOverChannel(centred(aliases[1], aliases[2]).mul_(grad));
        const Tensor results[] = {sum, products, products * aliases[3], sum};
        for (size_t i = 0; i < std::size(results); ++i) {
          if (aliases[4 + i].defined()) {
            aliases[4 + i].copy_(results[i]);
          }
        }
      });
  return {
      std::move(sum),
      std::move(sumOfProducts),
      std::move(weightGrad),
      std::move(biasGrad)};
}

Tensor batch_norm_backward_elemt(
    const Tensor& grad_out,
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const std::optional<Tensor>& weight,
    const Tensor& sum_dy,
    const Tensor& sum_dy_xmu,
    const Tensor& count) {
  const char* const name = "aten::batch_norm_backward_elemt";
  checkInput(name, input);
  const Tensor scale = given(weight);
  checkShape(name, "grad_out", grad_out, input, input.sizes());
  checkDevice(name, "count", count, input);
  checkChannels(
      name,
      input,
      {{"mean", &mean},
       {"invstd", &invstd},
       {"weight", &scale},
       {"sum_dy", &sum_dy},
       {"sum_dy_xmu", &sum_dy_xmu}});
  noteStaysHere(name);
  Tensor output = at::empty_like(input, input.suggest_memory_format());
  launch(
      name,
      streamOf(input),
      {.reads =
           {&grad_out,
            &input,
            &mean,
            &invstd,
            &sum_dy,
            &sum_dy_xmu,
            &count,
            &scale},
       .writes = {&output}},
      [](std::span<Tensor> aliases) {
        const Tensor& input = aliases[1];
        const Tensor& invstd = aliases[3];
        const Tensor total = aliases[6].sum();
        const Tensor slope = invstd.square() * aliases[5] / total;
        const Tensor factor =
            aliases[7].defined() ? invstd * aliases[7] : invstd;
        Tensor grad = aliases[0].to(statisticsType(input)) -
            alongChannels(aliases[4] / total, input);
        grad.sub_(centred(input, aliases[2]).mul_(alongChannels(slope, input)));
        aliases[8].copy_(grad.mul_(alongChannels(factor, input)));
      });
  return output;
}

} // namespace at::native::openreg
