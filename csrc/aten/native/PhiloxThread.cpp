#include "aten/native/PhiloxThread.h"

#include "aten/native/PhiloxVectors.h"

#include <ATen/native/Distributions.h>

namespace at::native::openreg::gpu {

// --- Poisson's distribution ---

namespace {

// curand's shortcuts to the hardware.
float quickExp(float x) {
  return exp2InHardware(static_cast<float>(x * std::numbers::log2e));
}
float quickLog(float x) {
  return static_cast<float>(log2InHardware(x) * std::numbers::ln2);
}

/// An approximation of the incomplete gamma function, and its inverse, for one rate.
class IncompleteGamma {
 public:
  explicit IncompleteGamma(float rate)
      : rate_(rate),
        slope_(fused(
            1.43248035075540910f,
            1 / std::sqrt(rate - 0.12400979329415655f),
            0.00025361074907033f)),
        shift_(fused(
            0.21096734870196546f,
            1 / std::sqrt(rate - 1.97381164089999420f),
            0.94201734077887530f)) {}

  float at(float x) const {
    const float t = 1 + quickExp(fused(slope_, rate_ - x, -shift_));
    return 1 / (t * t);
  }

  float inverse(float y) const {
    const float t = shift_ + quickLog(1 / std::sqrt(y) - 1);
    return fused(-t, 1 / slope_, rate_);
  }

 private:
  float rate_, slope_, shift_;
};

} // namespace

uint32_t poisson(PhiloxThread& thread, double rate) {
  if (rate < 64) { // how many numbers until their product is too small
    uint32_t count = 0;
    float product = std::exp(static_cast<float>(rate));
    do {
      ++count;
      product *= thread.uniform();
    } while (product > 1);
    return count - 1;
  }
  if (rate > 4000) {
    return static_cast<uint32_t>(
        fused(std::sqrt(rate), thread.wideNormal(), rate) + 0.5);
  }
  const auto narrow = static_cast<float>(rate);
  const IncompleteGamma below(narrow);
  const float logRate = quickLog(narrow);
  for (;;) {
    const float x = std::floor(below.inverse(thread.uniform()));
    const float bound = (below.at(x + 1) - below.at(x)) * 1.3f;
    const float drawn = thread.uniform() * bound;
    const float wanted = quickExp(
        fused(x, logRate, -narrow) -
        static_cast<float>(std::lgamma(static_cast<double>(1 + x))));
    if (drawn < wanted && bound >= 1e-20) {
      return static_cast<uint32_t>(x);
    }
  }
}

// --- distributions that PyTorch has code for ---

// It is compiled here with products and sums fused, as CUDA's compiler does.
namespace {

template <class T>
[[gnu::always_inline]] inline T gammaOf(PhiloxThread& thread, T alpha) {
  using C = Computed<T>;
  const auto uniform = [&] { return thread.uniform(); };
  const auto normal = [&] { return thread.normal(); };
  BaseSampler<C, decltype(uniform)> uniforms(uniform);
  BaseSampler<C, decltype(normal)> normals(normal);
  return sample_gamma<T, C>(alpha, uniforms, normals);
}

template <class T>
[[gnu::always_inline]] inline T binomialOf(
    PhiloxThread& thread,
    T count,
    T prob) {
  using C = Computed<T>;
  // In [0, 1), from the low bits.
  const auto uniform = [&] {
    return static_cast<float>(thread.word() & 0xFFFFFF) * 0x1p-24f;
  };
  BaseSampler<C, decltype(uniform)> uniforms(uniform);
  return sample_binomial<T, C>(count, prob, uniforms);
}

#ifdef OPENREG_WITH_VECTORS
template <class T>
OPENREG_WITH_VECTORS T fusedGamma(PhiloxThread& thread, T alpha) {
  return gammaOf(thread, alpha);
}

template <class T>
OPENREG_WITH_VECTORS T fusedBinomial(PhiloxThread& thread, T count, T prob) {
  return binomialOf(thread, count, prob);
}
#endif

} // namespace

template <class T>
T gamma(PhiloxThread& thread, T alpha) {
#ifdef OPENREG_WITH_VECTORS
  if (processorHasVectors()) {
    return fusedGamma(thread, alpha);
  }
#endif
  return gammaOf(thread, alpha);
}

template <class T>
T binomial(PhiloxThread& thread, T count, T prob) {
#ifdef OPENREG_WITH_VECTORS
  if (processorHasVectors()) {
    return fusedBinomial(thread, count, prob);
  }
#endif
  return binomialOf(thread, count, prob);
}

template float gamma(PhiloxThread&, float);
template double gamma(PhiloxThread&, double);
template Half gamma(PhiloxThread&, Half);
template BFloat16 gamma(PhiloxThread&, BFloat16);
template float binomial(PhiloxThread&, float, float);
template double binomial(PhiloxThread&, double, double);
template Half binomial(PhiloxThread&, Half, Half);
template BFloat16 binomial(PhiloxThread&, BFloat16, BFloat16);

} // namespace at::native::openreg::gpu
