#include "executor/ArgumentTypes.h"

#include "runtime/OpenRegDeviceType.h"

#include <ATen/core/jit_type.h>

namespace at::native::openreg {
namespace detail {

void encodeTensor(Signature& key, const Tensor& tensor) {
  if (!tensor.defined()) {
    key.push_back(-1);
    return;
  }
  key.push_back(
      static_cast<int64_t>(tensor.scalar_type()) << 8 |
      static_cast<int64_t>(tensor.device().type()) << 16 |
      static_cast<int64_t>(tensor.is_conj()) << 1 |
      static_cast<int64_t>(tensor.is_neg()) << 2 |
      static_cast<int64_t>(tensor.unsafeGetTensorImpl()->is_wrapped_number())
          << 3);
  key.push_back(tensor.dim());
  key.append(tensor.sizes().begin(), tensor.sizes().end());
  key.append(tensor.strides().begin(), tensor.strides().end());
}

void encodeNumber(Signature& key, const Scalar& number) {
  key.push_back(static_cast<int64_t>(number.type()));
  if (number.isComplex()) {
    key.push_back(std::bit_cast<int64_t>(number.toComplexDouble().real()));
    key.push_back(std::bit_cast<int64_t>(number.toComplexDouble().imag()));
  } else if (number.isFloatingPoint()) {
    key.push_back(std::bit_cast<int64_t>(number.toDouble()));
  } else {
    key.push_back(number.to<int64_t>());
  }
}

void encodeText(Signature& key, std::string_view text) {
  key.push_back(static_cast<int64_t>(text.size()));
  key.append(text.begin(), text.end());
}

using OptionalTensors = ArgumentTraits<c10::List<std::optional<Tensor>>>;

void OptionalTensors::visit(const List& list, TensorVisitor visit) {
  for (const std::optional<Tensor>& tensor : list) {
    ArgumentTraits<std::optional<Tensor>>::visit(tensor, visit);
  }
}

OptionalTensors::List OptionalTensors::map(const List& list, TensorMap map) {
  List mapped;
  mapped.reserve(list.size());
  for (const std::optional<Tensor>& tensor : list) {
    mapped.push_back(ArgumentTraits<std::optional<Tensor>>::map(tensor, map));
  }
  return mapped;
}

void OptionalTensors::encode(Signature& key, const List& list) {
  key.push_back(static_cast<int64_t>(list.size()));
  for (const std::optional<Tensor>& tensor : list) {
    ArgumentTraits<std::optional<Tensor>>::encode(key, tensor);
  }
}

// --- boxed ------------------------------------------------------------------------

void ArgumentTraits<c10::IValue>::visit(
    const c10::IValue& value,
    TensorVisitor visit) {
  if (value.isTensor()) {
    ArgumentTraits<Tensor>::visit(value.toTensor(), visit);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor()) {
        ArgumentTraits<Tensor>::visit(item.toTensor(), visit);
      }
    }
  }
}

c10::IValue ArgumentTraits<c10::IValue>::map(
    const c10::IValue& value,
    TensorMap map) {
  if (value.isTensor()) {
    return *map(value.toTensor());
  }
  if (value.isTensorList()) {
    auto tensors = value.toTensorVector();
    for (Tensor& tensor : tensors) {
      tensor = *map(tensor);
    }
    return tensors;
  }
  if (value.isOptionalTensorList()) {
    return OptionalTensors::map(value.toOptionalTensorList(), map);
  }
  if (value.isDevice() && c10::openreg::isOpenReg(value.toDevice())) {
    return c10::Device(c10::kCPU);
  }
  return value;
}

// Calls of boxed kernels wait, so nothing is remembered of them.
void ArgumentTraits<c10::IValue>::encode(Signature&, const c10::IValue&) {
  TORCH_INTERNAL_ASSERT(false, "a boxed call has no signature");
}

} // namespace detail
} // namespace at::native::openreg
