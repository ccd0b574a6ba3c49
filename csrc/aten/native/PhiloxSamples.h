// Random operators that take a parameter per element, or choose among elements, with a
// GPU's numbers.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace at::native::openreg::philox {

Tensor& bernoulli_tensor_(
    Tensor& self,
    const Tensor& p,
    std::optional<Generator> generator);
Tensor& bernoulli_out(
    const Tensor& self,
    std::optional<Generator> generator,
    Tensor& out);
Tensor poisson(const Tensor& self, std::optional<Generator> generator);
Tensor standard_gamma(const Tensor& self, std::optional<Generator> generator);
Tensor sample_dirichlet(const Tensor& self, std::optional<Generator> generator);
Tensor binomial(
    const Tensor& count,
    const Tensor& prob,
    std::optional<Generator> generator);
Tensor rrelu_with_noise(
    const Tensor& self,
    Tensor& noise,
    const Scalar& lower,
    const Scalar& upper,
    bool training,
    std::optional<Generator> generator);
Tensor& rrelu_with_noise_(
    Tensor& self,
    Tensor& noise,
    const Scalar& lower,
    const Scalar& upper,
    bool training,
    std::optional<Generator> generator);
Tensor& rrelu_with_noise_out(
    const Tensor& self,
    Tensor& noise,
    const Scalar& lower,
    const Scalar& upper,
    bool training,
    std::optional<Generator> generator,
    Tensor& output);

} // namespace at::native::openreg::philox
