// Memory that the matrix libraries of a real GPU keep, for a device that poses as
// one.
#pragma once

#include "runtime/OpenRegStream.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace at::native::openreg {

/// Allocates what the libraries keep for the calling thread and the stream, the
/// first time the thread computes a product there. It is never freed: a thread that
/// comes after this one takes it over.
void keepWorkspaces(const c10::openreg::OpenRegStream& stream, bool withBias);

inline constexpr bool isProduct(std::string_view op) {
  if (op.ends_with('_')) {
    op.remove_suffix(1); // the form that changes its argument
  }
  constexpr std::array<std::string_view, 6> kProducts{
      "aten::mm",
      "aten::addmm",
      "aten::_addmm_activation",
      "aten::bmm",
      "aten::baddbmm",
      "aten::addmv"};
  return std::ranges::find(kProducts, op) != kProducts.end();
}

/// The same for a call of `Op`, if it is a matrix product. A bias, that is a row to
/// add to a matrix, is another library's affair.
template <class Op, class... Rest>
void keepWorkspacesFor(
    const c10::openreg::OpenRegStream& stream,
    const auto& first,
    const Rest&... /*rest*/) {
  if constexpr (isProduct(Op::name)) {
    constexpr bool kAddsRows =
        std::string_view(Op::name).find("addmm") != std::string_view::npos;
    keepWorkspaces(stream, kAddsRows && first.dim() == 1);
  }
}

} // namespace at::native::openreg
