// Random operators that fill a tensor with a distribution, with a GPU's numbers.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace at::native::openreg::philox {

Tensor& uniform_(
    Tensor& self,
    double from,
    double to,
    std::optional<Generator> generator);
Tensor& bernoulli_(Tensor& self, double p, std::optional<Generator> generator);
Tensor& normal_(
    Tensor& self,
    double mean,
    double std,
    std::optional<Generator> generator);
Tensor& log_normal_(
    Tensor& self,
    double mean,
    double std,
    std::optional<Generator> generator);
Tensor& exponential_(
    Tensor& self,
    double lambda,
    std::optional<Generator> generator);
Tensor& cauchy_(
    Tensor& self,
    double median,
    double sigma,
    std::optional<Generator> generator);
Tensor& geometric_(Tensor& self, double p, std::optional<Generator> generator);
Tensor normal_Tensor_float(
    const Tensor& mean,
    double std,
    std::optional<Generator> generator);
Tensor& normal_Tensor_float_out(
    const Tensor& mean,
    double std,
    std::optional<Generator> generator,
    Tensor& out);
Tensor normal_float_Tensor(
    double mean,
    const Tensor& std,
    std::optional<Generator> generator);
Tensor& normal_float_Tensor_out(
    double mean,
    const Tensor& std,
    std::optional<Generator> generator,
    Tensor& out);
Tensor normal_Tensor_Tensor(
    const Tensor& mean,
    const Tensor& std,
    std::optional<Generator> generator);
Tensor& normal_Tensor_Tensor_out(
    const Tensor& mean,
    const Tensor& std,
    std::optional<Generator> generator,
    Tensor& out);

} // namespace at::native::openreg::philox
