// Operators that find bad data only when they run, written by hand.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

namespace at::native::openreg {

/// Breaks the device if the one element is zero.
void _assert_async(const Tensor& self);
void _assert_async_msg(const Tensor& self, std::string_view assert_msg);

/// Queued, but for indices that are masks: how many elements they select is data.
Tensor& _index_put_impl_(
    Tensor& self,
    const c10::List<std::optional<Tensor>>& indices,
    const Tensor& values,
    bool accumulate,
    bool unsafe);

} // namespace at::native::openreg
