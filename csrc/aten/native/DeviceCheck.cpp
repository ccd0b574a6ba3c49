#include "aten/native/DeviceCheck.h"

#include "runtime/OpenRegFunctions.h"

#include <ATen/core/op_registration/adaption.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace at::native::openreg {
namespace {

const std::unordered_map<std::string_view, std::string_view>& exactOperators() {
  static const auto* table =
      new std::unordered_map<std::string_view, std::string_view>{
#include "DeviceChecks.inc" // written by tools/generate_device_checks.py
      };
  return *table;
}

/// Calls `visit(tensor)` for the defined tensors of an argument.
template <class Visit>
void forEachTensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) {
      visit(value.toTensor());
    }
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor() && item.toTensor().defined()) {
        visit(item.toTensor());
      }
    }
  }
}

bool holdsTensors(const c10::Argument& argument) {
  const auto& type = *argument.real_type();
  const bool indices = argument.name() == "indices" && // may be anywhere
      type.kind() == c10::TypeKind::ListType;
  return !indices && type.str().find("Tensor") != std::string::npos;
}

} // namespace

DeviceCheck::DeviceCheck(const c10::FunctionSchema& schema)
    : operator_(c10::toString(schema.operator_name())) {
  const auto exact = exactOperators().find(operator_);
  if (exact != exactOperators().end()) {
    wrapper_ =
        c10::str("wrapper_", c10::DispatchKey::PrivateUse1, "_", exact->second);
  }
  const auto& arguments = schema.arguments();
  for (size_t place = 0; place < arguments.size(); ++place) {
    const c10::Argument& argument = arguments[place];
    if (holdsTensors(argument)) {
      tensors_.push_back({place, argument.name(), argument.is_out()});
    } else if (argument.name() == "device") {
      device_ = place;
    }
  }
  std::stable_partition(
      tensors_.begin(), tensors_.end(), [](const TensorArgument& argument) {
        return argument.output;
      });
}

c10::Device DeviceCheck::check(
    torch::jit::Stack::const_iterator arguments) const {
  auto device = wrapper_.empty() ? elementwise(arguments) : exact(arguments);
  if (!device || !device->is_privateuseone()) {
    // No tensor of ours: a factory, or an operator of another kind of tensor.
    device = device_ && arguments[*device_].isDevice()
        ? arguments[*device_].toDevice()
        : c10::Device(c10::kPrivateUse1);
  }
  return {c10::kPrivateUse1, c10::openreg::device_or_current(device->index())};
}

std::optional<c10::Device> DeviceCheck::exact(
    torch::jit::Stack::const_iterator arguments) const {
  std::optional<c10::Device> common;
  for (const TensorArgument& argument : tensors_) {
    forEachTensor(arguments[argument.place], [&](const Tensor& tensor) {
      c10::impl::check_and_update_common_device(
          common, tensor, wrapper_.c_str(), argument.name.c_str());
    });
  }
  return common;
}

std::optional<c10::Device> DeviceCheck::elementwise(
    torch::jit::Stack::const_iterator arguments) const {
  std::optional<c10::Device> common;
  for (const TensorArgument& argument : tensors_) {
    forEachTensor(arguments[argument.place], [&](const Tensor& tensor) {
      if (!common || common->is_cpu()) {
        common = tensor.device();
      }
    });
  }
  for (const TensorArgument& argument : tensors_) {
    forEachTensor(arguments[argument.place], [&](const Tensor& tensor) {
      const bool hostNumber =
          !argument.output && tensor.dim() == 0 && tensor.is_cpu();
      TORCH_CHECK(
          tensor.device() == *common || hostNumber,
          "Expected all tensors to be on the same device, but found at least "
          "two devices, ",
          *common,
          " and ",
          tensor.device(),
          "!");
    });
  }
  return common;
}

} // namespace at::native::openreg
