// What torch.save() keeps of a tensor beyond its numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>

namespace c10::openreg {

/// Named flags of a tensor, such as the memory layout an accelerator chose for
/// it. PyTorch saves and loads them with the tensor.
using TensorFlags = std::unordered_map<std::string, bool>;

/// The flags of an openreg tensor; throws for a tensor of another device.
TensorFlags getTensorFlags(const at::Tensor& tensor);
void setTensorFlag(
    const at::Tensor& tensor,
    const std::string& name,
    bool value);

} // namespace c10::openreg
