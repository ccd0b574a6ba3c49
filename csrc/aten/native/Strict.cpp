#include "aten/native/Strict.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <c10/util/env.h>

#include <string>

namespace at::native::openreg {
namespace {

// OPENREG_STRICT: `1` refuses what a GPU refuses, with its messages: dtypes that CUDA's
// kernels do not have, attention kernels that would not run there, and operators without
// a deterministic implementation if one is asked for; see [strict mode](strict.md).
// Default: `0`.
bool readStrict() {
  const auto value = c10::utils::get_env("OPENREG_STRICT");
  if (!value || *value == "0") {
    return false;
  }
  TORCH_CHECK(
      *value == "1", "OPENREG_STRICT is '", *value, "', but must be 0 or 1");
  return true;
}

std::string withDtype(std::string_view text, c10::ScalarType dtype) {
  std::string sentence(text);
  if (const size_t at = sentence.find('@'); at != std::string::npos) {
    sentence.replace(at, 1, c10::toString(dtype));
  }
  return sentence;
}

// CUDA's dispatch keys, as PyTorch names them where an operator has no kernel.
const char* cudaKey(const Tensor& tensor) {
  if (tensor.is_quantized()) {
    return "QuantizedCUDA";
  }
  switch (tensor.layout()) {
    case c10::kStrided:
      return "CUDA";
    case c10::kSparse:
      return "SparseCUDA";
    default:
      return "SparseCsrCUDA";
  }
}

} // namespace

bool strict() {
  static const bool read = readStrict();
  return read;
}

void refuse(
    const Refusal& row,
    const c10::OperatorName& op,
    Arguments arguments) {
  if (row.kind == RefusalKind::Alert &&
      !globalContext().deterministicAlgorithms()) {
    return;
  }
  if (!arguments[row.place].isTensor()) {
    return;
  }
  const Tensor& tensor = arguments[row.place].toTensor();
  if (!tensor.defined() || !(row.layouts & layoutSet(tensor.layout()))) {
    return;
  }
  const auto dtype = tensor.scalar_type();
  const bool isOne = row.dtypes >> static_cast<int>(dtype) & 1;
  if (!isOne || (row.when && !row.when(arguments, row.place))) {
    return;
  }
  switch (row.kind) {
    case RefusalKind::Kernel:
      TORCH_CHECK_NOT_IMPLEMENTED(
          false, '"', row.text, "\" not implemented for '", dtype, "'");
      break;
    case RefusalKind::Sentence:
      TORCH_CHECK(false, withDtype(row.text, dtype));
      break;
    case RefusalKind::Missing:
      TORCH_CHECK_NOT_IMPLEMENTED(
          false,
          "Could not run '",
          op,
          "' with arguments from the '",
          cudaKey(tensor),
          "' backend. This could be because the operator doesn't exist for "
          "this "
          "backend, or was omitted during the selective/custom build process "
          "(if "
          "using custom build). If you are a Facebook employee using PyTorch "
          "on "
          "mobile, please visit https://fburl.com/ptmfixes for possible "
          "resolutions.");
      break;
    case RefusalKind::Alert:
      globalContext().alertNotDeterministic(row.text);
      break;
  }
}

} // namespace at::native::openreg
