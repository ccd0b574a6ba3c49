// Tensors as the memory that collectives move.
#pragma once

#include "distributed/Collective.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace c10::openreg::occl {

/// The memory of a dense tensor of an openreg device, where kernels find it. `writes`:
/// it is an output, and must not be shared with copies that were not made yet.
Span spanOf(const at::Tensor& tensor, bool writes);

/// Throws unless all are dense tensors of one openreg device with one dtype. Returns
/// that device.
c10::Device checkTensors(
    const char* what,
    const std::vector<at::Tensor>& tensors);

/// Throws unless a tensor's elements are in memory in their order.
void checkContiguous(const char* what, const at::Tensor& tensor);

/// Begins a call for elements of a dtype, as bytes.
Collective moving(Kind kind, c10::ScalarType dtype);

/// The same with an operation. Throws for dtypes that cannot be reduced so.
Collective reducing(
    Kind kind,
    c10::ScalarType dtype,
    const c10d::ReduceOp& operation);

/// One span per rank in a tensor that has the parts of all, one after the other:
/// equal ones, or as many rows for each as `sizes` says.
std::vector<Span> partsOf(
    const char* what,
    const at::Tensor& tensor,
    int ranks,
    const std::vector<int64_t>& sizes,
    bool writes);

} // namespace c10::openreg::occl
