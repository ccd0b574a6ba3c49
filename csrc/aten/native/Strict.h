// What a GPU refuses and the CPU's kernels accept: OPENREG_STRICT.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Layout.h>
#include <c10/core/ScalarType.h>

#include <span>
#include <string_view>

namespace at::native::openreg {

/// Whether OPENREG_STRICT is set. Decided once.
bool strict();

/// Bits of dtypes, and of layouts, by their numbers.
using DtypeSet = uint64_t;
using LayoutSet = uint32_t;

template <class... Layouts>
constexpr LayoutSet layoutSet(Layouts... of) {
  return ((LayoutSet(1) << static_cast<int>(of)) | ...);
}

enum class RefusalKind {
  Kernel, // the name of CUDA's kernel, which has no such dtype
  Sentence, // a whole sentence; @ stands for the dtype
  Missing, // CUDA has no kernel of this operator
  Alert, // the name in the sentence about deterministic algorithms
};

using Arguments = std::span<const c10::IValue>;

/// A row of the table: operators, the arguments they are refused with, and the words.
struct Refusal {
  /// Names with spaces between them: "mm" is all its overloads, "histc.out" is one.
  std::string_view operators;
  RefusalKind kind;
  std::string_view text;
  DtypeSet dtypes = ~DtypeSet(0);
  /// Which argument has the dtype and the layout.
  size_t place = 0;
  LayoutSet layouts = layoutSet(c10::kStrided);
  /// What else must hold; the number is `place`.
  bool (*when)(Arguments, size_t) = nullptr;
};

/// What an NVIDIA H200 refuses, as tests/golden/strict.json has it.
std::span<const Refusal> refusals();

/// Raises, or warns under warn_only, if the row is about these arguments.
void refuse(
    const Refusal& row,
    const c10::OperatorName& op,
    Arguments arguments);

} // namespace at::native::openreg
