#include "aten/native/PhiloxSamples.h"

#include "aten/native/PhiloxDraws.h"
#include "aten/native/PhiloxThread.h"
#include "executor/ParallelFor.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/ops/_standard_gamma.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>

#include <limits>

namespace at::native::openreg::philox {
namespace {

#define OPENREG_FLOATS kHalf, kBFloat16, AT_EXPAND(AT_FLOATING_TYPES)

/// Throws CUDA's sentence unless both are on one device.
void checkDevices(
    const char* wrapper,
    const Tensor& a,
    const char* nameOfA,
    const Tensor& b,
    const char* nameOfB) {
  std::optional<c10::Device> common;
  c10::impl::check_and_update_common_device(common, a, wrapper, nameOfA);
  c10::impl::check_and_update_common_device(common, b, wrapper, nameOfB);
}

/// Sets each element of `out` to `sample(point, element, parameter)`. A thread of the host
/// has a copy of `sample`, which it calls for elements in ascending order.
template <class T, class P, class Sample>
void sampleEach(
    const char* name,
    const Tensor& out,
    const Tensor& parameters,
    const MaybeGenerator& generator,
    uint64_t increment,
    Sample sample) {
  const OpenRegStream stream = drawingStreamOf(out);
  const PhiloxDraw draw = c10::openreg::drawFrom(generator, stream, increment);
  const auto order = commonOrder(out, parameters);
  launch(
      name,
      stream,
      {.reads = {&parameters}, .writes = {&out}},
      DrawWork([=,
                count = out.numel(),
                from = TensorPlaces(parameters, order),
                to = TensorPlaces(out, order)](std::span<Tensor> tensors) {
        const P* const read = tensors[0].const_data_ptr<P>();
        T* const written = tensors[1].mutable_data_ptr<T>();
        const PhiloxPoint point = draw.point();
        constexpr int64_t kGrain = 1024;
        parallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
          auto mine = sample;
          for (int64_t element = begin; element < end; ++element) {
            written[to(element)] = mine(point, element, read[from(element)]);
          }
        });
      }));
}

template <class>
struct BernoulliOf {
  void operator()(
      const TensorBase& self,
      const Tensor& p,
      const MaybeGenerator& generator) const {
    const Tensor out(self);
    TORCH_CHECK(
        isFloatingType(p.scalar_type()),
        "expected probabilities tensor to have floating type, got ",
        p.scalar_type());
    const auto type = out.scalar_type() == kDouble ? kDouble : kFloat;
    const Tensor given = p.to(out.device(), type);
    const auto probs = expand_inplace(out, given);
    AT_DISPATCH_V2(
        out.scalar_type(),
        "bernoulli_",
        AT_WRAP([&] {
          using C = Computed<scalar_t>;
          sampleEach<scalar_t, C>(
              "bernoulli_",
              out,
              *probs,
              generator,
              10,
              [block = PhiloxBlock(), of = int64_t{-1}](
                  PhiloxPoint point, int64_t element, C prob) mutable {
                TORCH_CHECK(
                    prob >= 0 && prob <= 1,
                    "bernoulli_ expects p to be in [0, 1], but got p=",
                    prob);
                if (of != element / 4) { // four elements share a block
                  of = element / 4;
                  block = c10::openreg::philox(
                      point.seed, point.offset, static_cast<uint64_t>(of));
                }
                return static_cast<scalar_t>(
                    uniformOf(block.words[element % 4]) <= prob);
              });
        }),
        kBool,
        AT_EXPAND(AT_INTEGRAL_TYPES),
        OPENREG_FLOATS);
  }
};

struct Philox;

} // namespace

Tensor& bernoulli_tensor_(
    Tensor& self,
    const Tensor& p,
    std::optional<Generator> generator) {
  return templates::bernoulli_impl_<BernoulliOf, Philox>(self, p, generator);
}

Tensor& bernoulli_out(
    const Tensor& self,
    std::optional<Generator> generator,
    Tensor& out) {
  return templates::bernoulli_out_impl<BernoulliOf, Philox>(
      out, self, generator);
}

Tensor poisson(const Tensor& self, std::optional<Generator> generator) {
  Tensor result = at::empty(self.sizes(), self.options());
  AT_DISPATCH_V2(
      self.scalar_type(),
      "poisson",
      AT_WRAP([&] {
        sampleEach<scalar_t, scalar_t>(
            "poisson",
            result,
            self,
            generator,
            20,
            [](PhiloxPoint point, int64_t element, scalar_t rate) {
              TORCH_CHECK(
                  rate >= 0,
                  "invalid Poisson rate, expected rate to be non-negative, "
                  "but got ",
                  static_cast<double>(rate));
              gpu::PhiloxThread thread(point, element);
              return static_cast<scalar_t>(
                  gpu::poisson(thread, static_cast<double>(rate)));
            });
      }),
      OPENREG_FLOATS);
  return result;
}

Tensor standard_gamma(const Tensor& self, std::optional<Generator> generator) {
  Tensor result = at::empty(self.sizes(), self.options());
  AT_DISPATCH_V2(
      self.scalar_type(),
      "_standard_gamma",
      AT_WRAP([&] {
        sampleEach<scalar_t, scalar_t>(
            "_standard_gamma",
            result,
            self,
            generator,
            10,
            [](PhiloxPoint point, int64_t element, scalar_t alpha) {
              // Other parameters would be rejected forever.
              TORCH_CHECK(
                  alpha >= 0,
                  "_standard_gamma expects concentrations of 0 or more, but "
                  "got ",
                  static_cast<double>(alpha));
              gpu::PhiloxThread thread(point, element);
              return std::max(
                  gpu::gamma(thread, alpha),
                  std::numeric_limits<scalar_t>::min());
            });
      }),
      OPENREG_FLOATS);
  return result;
}

Tensor sample_dirichlet(
    const Tensor& self,
    std::optional<Generator> generator) {
  Tensor gamma = at::_standard_gamma(self, std::move(generator));
  const Tensor sum = gamma.sum(-1, /*keepdim=*/true);
  gamma.div_(sum);
  AT_DISPATCH_V2(
      self.scalar_type(),
      "_sample_dirichlet",
      AT_WRAP([&] {
        using Limits = std::numeric_limits<scalar_t>;
        gamma.clamp_(
            static_cast<double>(Limits::min()),
            1 - static_cast<double>(Limits::epsilon()));
      }),
      OPENREG_FLOATS);
  return gamma;
}

Tensor binomial(
    const Tensor& count,
    const Tensor& prob,
    std::optional<Generator> generator) {
  checkDevices("wrapper_CUDA__binomial", count, "count", prob, "prob");
  // CUDA's kernel gives a thread eight elements, which lie this far apart.
  constexpr int64_t kThreads = 128, kEach = 8;
  Tensor result =
      at::empty(infer_size(count.sizes(), prob.sizes()), count.options());
  const Tensor counts = count.expand(result.sizes()).contiguous();
  const Tensor probs = prob.expand(result.sizes()).contiguous();
  const OpenRegStream stream = drawingStreamOf(result);
  const PhiloxDraw draw = c10::openreg::drawFrom(generator, stream, 42);
  AT_DISPATCH_V2(
      count.scalar_type(),
      "binomial",
      AT_WRAP([&] {
        launch(
            "binomial",
            stream,
            {.reads = {&counts, &probs}, .writes = {&result}},
            DrawWork([draw](std::span<Tensor> tensors) {
              const int64_t numel = tensors[2].numel();
              const auto* const n = tensors[0].const_data_ptr<scalar_t>();
              const auto* const p = tensors[1].const_data_ptr<scalar_t>();
              auto* const made = tensors[2].mutable_data_ptr<scalar_t>();
              const PhiloxPoint point = draw.point();
              const int64_t blocks =
                  (numel + kThreads * kEach - 1) / (kThreads * kEach);
              parallelFor(
                  blocks * kThreads, kThreads, [&](int64_t begin, int64_t end) {
                    for (int64_t id = begin; id < end; ++id) {
                      gpu::PhiloxThread thread(point, id);
                      for (int64_t i = 0; i < kEach; ++i) {
                        const int64_t element =
                            (id / kThreads * kEach + i) * kThreads +
                            id % kThreads;
                        if (element < numel) {
                          made[element] =
                              gpu::binomial(thread, n[element], p[element]);
                        }
                      }
                    }
                  });
            }));
      }),
      OPENREG_FLOATS);
  return result;
}

// --- rrelu ---

Tensor& rrelu_with_noise_out(
    const Tensor& self,
    Tensor& noise,
    const Scalar& lower,
    const Scalar& upper,
    bool training,
    std::optional<Generator> generator,
    Tensor& output) {
  const char* const wrapper = "wrapper_CUDA_out_rrelu_with_noise_out";
  checkDevices(wrapper, self, "self", noise, "noise");
  checkDevices(wrapper, self, "self", output, "out");
  const double low = lower.to<double>(), high = upper.to<double>();
  TORCH_CHECK(
      low <= high,
      "Lower bound should be less than or equal to the upper bound, but got ",
      low,
      " and ",
      high);
  TORCH_CHECK(
      !training || noise.sym_sizes() == self.sym_sizes(),
      "noise tensor shape must match self tensor shape, but they are ",
      noise.sizes(),
      " and ",
      self.sizes());
  if (!training) {
    return at::leaky_relu_out(output, self, (low + high) / 2);
  }
  at::native::resize_output(output, self.sizes());
  if (self.numel() == 0) {
    return output;
  }
  const Tensor input = self.contiguous();
  const Tensor made = output.contiguous(), noises = noise.contiguous();
  const OpenRegStream stream = drawingStreamOf(self);
  AT_DISPATCH_V2(
      self.scalar_type(),
      "rrelu_with_noise",
      AT_WRAP([&] {
        using C = Computed<scalar_t>;
        const DrawGrid grid(self.numel(), kUnroll<C>, self.device());
        const PhiloxDraw draw =
            c10::openreg::drawFrom(generator, stream, grid.increment());
        launch(
            "rrelu_with_noise",
            stream,
            {.reads = {&input}, .writes = {&made, &noises}},
            DrawWork([=](std::span<Tensor> tensors) {
              const auto* const from = tensors[0].const_data_ptr<scalar_t>();
              auto* const to = tensors[1].mutable_data_ptr<scalar_t>();
              auto* const factors = tensors[2].mutable_data_ptr<scalar_t>();
              drawBlocks(draw.point(), grid, [&](const DrawBatch& batch) {
                inVectors([&] {
                  for (int64_t i = 0; i < batch.count; ++i) {
                    const auto uniforms = uniformsOf<C>(batch.block(i));
                    for (size_t number = 0; number < uniforms.size();
                         ++number) {
                      const int64_t element = (batch.round * kUnroll<C> +
                                               static_cast<int64_t>(number)) *
                              grid.threads +
                          batch.thread + i;
                      if (element >= tensors[0].numel()) {
                        break;
                      }
                      const auto u = static_cast<scalar_t>(uniforms[number]);
                      const bool negative = from[element] <= 0;
                      const auto factor = negative
                          ? static_cast<scalar_t>(
                                fused(static_cast<double>(u), high - low, low))
                          : static_cast<scalar_t>(1);
                      to[element] = from[element] * factor;
                      factors[element] = factor;
                    }
                  }
                });
              });
            }));
      }),
      OPENREG_FLOATS);
  if (!output.is_same(made)) {
    output.copy_(made);
  }
  if (!noise.is_same(noises)) {
    noise.copy_(noises);
  }
  return output;
}

Tensor rrelu_with_noise(
    const Tensor& self,
    Tensor& noise,
    const Scalar& lower,
    const Scalar& upper,
    bool training,
    std::optional<Generator> generator) {
  Tensor output = at::empty_like(self, at::MemoryFormat::Contiguous);
  return rrelu_with_noise_out(
      self, noise, lower, upper, training, std::move(generator), output);
}

Tensor& rrelu_with_noise_(
    Tensor& self,
    Tensor& noise,
    const Scalar& lower,
    const Scalar& upper,
    bool training,
    std::optional<Generator> generator) {
  return rrelu_with_noise_out(
      self, noise, lower, upper, training, std::move(generator), self);
}

} // namespace at::native::openreg::philox
