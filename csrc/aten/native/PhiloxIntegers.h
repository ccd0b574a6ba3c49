// Random operators that fill a tensor with integers, with a GPU's numbers.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace at::native::openreg::philox {

Tensor& random_(Tensor& self, std::optional<Generator> generator);
Tensor& random_to_(
    Tensor& self,
    int64_t to,
    std::optional<Generator> generator);
Tensor& random_from_(
    Tensor& self,
    int64_t from,
    std::optional<int64_t> to,
    std::optional<Generator> generator);

} // namespace at::native::openreg::philox
