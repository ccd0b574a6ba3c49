// What the results of a kernel are like, found out without the device.
#pragma once

#include "executor/Invocation.h"

#include <ATen/core/ivalue.h>

#include <optional>
#include <vector>

namespace at::native::openreg {

// docs:begin rehearsal
/// While a stream records a graph nothing may run on the device. But the executor must
/// know what results a call has, and whether its kernel supports the call. So the kernel
/// runs on host memory that stands in for the device's. The values there mean nothing:
/// this is for operators whose results follow from shapes and numbers.
// docs:end rehearsal
struct RehearsedCall {
  /// Of the device: new tensors, arguments, or views of arguments.
  c10::SmallVector<c10::IValue, 4> results;
  /// For each tensor among the kernel's results the new one that it is to be written to;
  /// undefined for those that are arguments.
  std::vector<Tensor> made;
};

/// Runs a kernel and returns its results.
using RehearsedKernel =
    c10::function_ref<c10::SmallVector<c10::IValue, 4>(ArgumentSpan)>;

/// Tells the results of a call. Outputs that are given, and too small, are resized.
/// Throws what the kernel throws. Returns std::nullopt if the results may depend on the
/// data, or are of a kind that cannot be made beforehand.
std::optional<RehearsedCall> rehearse(
    const Invocation& call,
    RehearsedKernel kernel);

/// Runs the kernel of a call whose outputs exist, only to find out what it throws.
void rehearse(
    const Invocation& call,
    std::span<const Tensor> outputs,
    c10::function_ref<void(ArgumentSpan, std::span<Tensor>)> kernel);

/// The tensors among the results of a kernel, lists included: in the order of
/// RehearsedCall::made.
std::vector<Tensor> tensorsAmong(std::span<const c10::IValue> results);

} // namespace at::native::openreg
