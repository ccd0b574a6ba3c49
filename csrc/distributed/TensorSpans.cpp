#include "distributed/TensorSpans.h"

#include "distributed/Reduction.h"
#include "executor/Launch.h"
#include "executor/Layouts.h"
#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegLostMemory.h"

#include <numeric>

namespace c10::openreg::occl {
namespace {

using c10::ScalarType;

DataType typeOf(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Bool:
      return DataType::Bool;
    case ScalarType::Byte:
      return DataType::UInt8;
    case ScalarType::Char:
      return DataType::Int8;
    case ScalarType::UInt16:
      return DataType::UInt16;
    case ScalarType::Short:
      return DataType::Int16;
    case ScalarType::UInt32:
      return DataType::UInt32;
    case ScalarType::Int:
      return DataType::Int32;
    case ScalarType::UInt64:
      return DataType::UInt64;
    case ScalarType::Long:
      return DataType::Int64;
    case ScalarType::Half:
      return DataType::Half;
    case ScalarType::BFloat16:
      return DataType::BFloat16;
    case ScalarType::Float:
    case ScalarType::ComplexFloat: // two of them
      return DataType::Float;
    case ScalarType::Double:
    case ScalarType::ComplexDouble:
      return DataType::Double;
    default:
      return DataType::Bytes;
  }
}

Operation operationOf(const c10d::ReduceOp& operation) {
  switch (operation.op_) {
    case c10d::ReduceOp::SUM:
      return Operation::Sum;
    case c10d::ReduceOp::AVG:
      return Operation::Average;
    case c10d::ReduceOp::PRODUCT:
      return Operation::Product;
    case c10d::ReduceOp::MIN:
      return Operation::Min;
    case c10d::ReduceOp::MAX:
      return Operation::Max;
    case c10d::ReduceOp::BAND:
      return Operation::And;
    case c10d::ReduceOp::BOR:
      return Operation::Or;
    case c10d::ReduceOp::BXOR:
      return Operation::Xor;
    case c10d::ReduceOp::PREMUL_SUM:
      return Operation::PremulSum;
    default:
      break;
  }
  TORCH_CHECK(
      false, "occl does not know the reduce operation ", operation.op_ + 0);
}

double factorOf(const c10d::ReduceOp& operation) {
  if (operation.op_ != c10d::ReduceOp::PREMUL_SUM) {
    return 1;
  }
  const auto* supplement = static_cast<const c10d::PreMulSumSupplement*>(
      operation.supplement_.get());
  TORCH_CHECK(supplement, "PREMUL_SUM needs a factor");
  return supplement->tensor_factor.defined()
      ? supplement->tensor_factor.item<double>()
      : supplement->double_factor;
}

} // namespace

Span spanOf(const at::Tensor& tensor, bool writes) {
  const size_t bytes = tensor.nbytes();
  if (bytes == 0) {
    return {};
  }
  if (writes) {
    at::native::openreg::beginWriting(tensor);
  }
  const void* data = tensor.storage().data();
  checkNotLost(data);
  return {
      static_cast<char*>(kernelAddress(data)) +
          tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize()),
      bytes};
}

c10::Device checkTensors(
    const char* what,
    const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(!tensors.empty(), what, " needs at least one tensor");
  const at::Tensor& first = tensors[0];
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_VALUE(
        at::native::openreg::isOpenReg(tensor),
        what,
        " of occl needs tensors of an openreg device, but got one of ",
        tensor.defined() ? tensor.device().str() : "nothing");
    TORCH_CHECK_VALUE(
        tensor.layout() == at::kStrided,
        what,
        " of occl needs dense tensors, but got one with layout ",
        tensor.layout());
    TORCH_CHECK_VALUE(
        tensor.is_non_overlapping_and_dense(),
        what,
        " needs tensors whose elements lie side by side in memory; call "
        "contiguous() first");
    TORCH_CHECK_VALUE(
        !tensor.is_conj() && !tensor.is_neg(),
        what,
        " needs tensors without lazy conjugation or negation; call "
        "resolve_conj() and resolve_neg() first");
    TORCH_CHECK_VALUE(
        tensor.device() == first.device(),
        what,
        " needs tensors of one device, but got ",
        first.device(),
        " and ",
        tensor.device());
    TORCH_CHECK_TYPE(
        tensor.scalar_type() == first.scalar_type(),
        what,
        " needs tensors of one dtype, but got ",
        first.scalar_type(),
        " and ",
        tensor.scalar_type());
  }
  return first.device();
}

void checkContiguous(const char* what, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(
      tensor.is_contiguous(),
      what,
      " needs contiguous tensors; call contiguous() first");
}

Collective moving(Kind kind, ScalarType dtype) {
  Collective call;
  call.kind = kind;
  call.dtype = static_cast<int>(dtype);
  call.type = typeOf(dtype);
  return call;
}

Collective reducing(
    Kind kind,
    ScalarType dtype,
    const c10d::ReduceOp& operation) {
  Collective call = moving(kind, dtype);
  call.operation = operationOf(operation);
  call.factor = factorOf(operation);
  const bool linear = call.operation == Operation::Sum ||
      call.operation == Operation::Average ||
      call.operation == Operation::PremulSum;
  TORCH_CHECK_VALUE(
      !c10::isComplexType(dtype) || linear,
      "occl cannot reduce complex numbers with ",
      nameOf(call.operation),
      "; SUM, AVG and PREMUL_SUM work");
  TORCH_CHECK_VALUE(
      call.type != DataType::Bytes,
      "occl moves elements of dtype ",
      dtype,
      " but does not reduce them; convert them first");
  try {
    checkReducible(call.type, call.operation);
  } catch (const std::invalid_argument& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
  return call;
}

std::vector<Span> partsOf(
    const char* what,
    const at::Tensor& tensor,
    int ranks,
    const std::vector<int64_t>& sizes,
    bool writes) {
  checkContiguous(what, tensor);
  const Span all = spanOf(tensor, writes);
  const auto count = static_cast<size_t>(ranks);
  std::vector<Span> parts(count);
  if (sizes.empty()) {
    TORCH_CHECK_VALUE(
        tensor.numel() % ranks == 0,
        what,
        " splits a tensor between ",
        ranks,
        " ranks, but it has ",
        tensor.numel(),
        " elements");
    const size_t bytes = all.bytes / count;
    for (size_t i = 0; i < count; ++i) {
      parts[i] = {all.data + i * bytes, bytes};
    }
    return parts;
  }
  const int64_t rows = tensor.dim() == 0 ? 0 : tensor.size(0);
  TORCH_CHECK_VALUE(
      sizes.size() == count &&
          std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) == rows &&
          std::all_of(
              sizes.begin(), sizes.end(), [](int64_t n) { return n >= 0; }),
      what,
      " needs a size for each of ",
      ranks,
      " ranks that make up the ",
      rows,
      " rows of the tensor, but got ",
      c10::IntArrayRef(sizes));
  const size_t row = rows == 0 ? 0 : all.bytes / static_cast<size_t>(rows);
  char* place = all.data;
  for (size_t i = 0; i < count; ++i) {
    parts[i] = {place, static_cast<size_t>(sizes[i]) * row};
    place += parts[i].bytes;
  }
  return parts;
}

} // namespace c10::openreg::occl
