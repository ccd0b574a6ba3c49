#include "executor/Iterators.h"

#include "runtime/OpenRegAddress.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

namespace at::native::openreg {
namespace {

/// Gives access to what an iterator keeps of its operands.
class Iterator final : public TensorIteratorBase {
 public:
  static SmallVector<OperandInfo, 4>& operandsOf(TensorIteratorBase& iterator) {
    constexpr auto member = &Iterator::operands_;
    return iterator.*member;
  }
  static void setDevice(TensorIteratorBase& iterator, c10::Device device) {
    constexpr auto member = &Iterator::common_device_;
    iterator.*member = device;
  }
};

/// What `number.to(dtype)` gives. Mostly it is a number of Python that meets a floating
/// dtype, which needs no operator.
Tensor castTo(const Tensor& number, ScalarType dtype) {
  const bool isPythons = number.unsafeGetTensorImpl()->is_wrapped_number() &&
      (number.scalar_type() == kDouble || number.scalar_type() == kLong);
  if (!isPythons || (dtype != kFloat && dtype != kDouble)) {
    return number.to(dtype);
  }
  Tensor cast = at::detail::empty_cpu({}, dtype);
  const auto store = [&](auto value) {
    if (dtype == kFloat) {
      *cast.mutable_data_ptr<float>() = static_cast<float>(value);
    } else {
      *cast.mutable_data_ptr<double>() = static_cast<double>(value);
    }
  };
  if (number.scalar_type() == kDouble) {
    store(*number.const_data_ptr<double>());
  } else {
    store(*number.const_data_ptr<int64_t>());
  }
  return cast;
}

// A number of the host is cast as the CPU's iterator casts it.
void castNumber(OperandInfo& operand, ScalarType common) {
  operand.exchange_tensor(
      c10::MaybeOwned<TensorBase>::owned(castTo(operand.tensor(), common)));
  operand.current_dtype = common;
  operand.data = const_cast<void*>(operand.tensor_base().const_data_ptr());
}

} // namespace

bool castsOperands(TensorIteratorBase& iterator, bool given) {
  const auto common = iterator.maybe_common_dtype();
  for (const OperandInfo& operand : Iterator::operandsOf(iterator)) {
    const bool matches = !common || operand.current_dtype == *common ||
        (operand.is_output ? !given : operand.tensor_base().is_cpu());
    if (!matches) {
      return true;
    }
  }
  return false;
}

bool keepsStrides(TensorIteratorBase& iterator) {
  const auto common = iterator.maybe_common_dtype();
  for (const OperandInfo& operand : Iterator::operandsOf(iterator)) {
    const TensorBase& tensor = operand.tensor_base();
    if (common && !operand.is_output && tensor.scalar_type() != *common &&
        !tensor.is_non_overlapping_and_dense()) {
      return false;
    }
  }
  return true;
}

// docs:begin point-at-memory
// The device of the first operand decides whose kernel runs.
void pointAtMemory(TensorIteratorBase& iterator) {
  auto& operands = Iterator::operandsOf(iterator);
  const auto common = iterator.maybe_common_dtype();
  for (OperandInfo& operand : operands) {
    if (operand.device->is_cpu()) {
      if (common && operand.current_dtype != *common) {
        castNumber(operand, *common);
      }
    } else {
      operand.data = c10::openreg::kernelAddress(operand.data);
    }
  }
  operands[0].device = c10::Device(c10::kCPU);
  Iterator::setDevice(iterator, c10::kCPU);
}
// docs:end point-at-memory

} // namespace at::native::openreg
