#include "executor/DeviceCheck.h"

#include "runtime/OpenRegFunctions.h"

#include <ATen/core/jit_type.h>
#include <ATen/core/op_registration/adaption.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace at::native::openreg {
namespace {

const std::unordered_map<std::string_view, std::string_view>& exactOperators() {
  static const auto* table =
      new std::unordered_map<std::string_view, std::string_view>{
#include "DeviceChecks.inc" // written by tools/generate_operators.py
      };
  return *table;
}

bool holdsTensors(const c10::Argument& argument) {
  return argument.real_type()->str().find("Tensor") != std::string::npos;
}

// The indices of index() and its like, which may be on the CPU.
bool holdsIndices(const c10::Argument& argument) {
  return argument.name() == "indices" && holdsTensors(argument) &&
      argument.real_type()->kind() == c10::TypeKind::ListType;
}

} // namespace

DeviceCheck::DeviceCheck(
    const c10::FunctionSchema& schema,
    c10::DispatchKey key)
    : operator_(c10::toString(schema.operator_name())) {
  const auto exact = exactOperators().find(operator_);
  if (exact != exactOperators().end()) {
    wrapper_ = c10::str("wrapper_", key, "_", exact->second);
  }
  const auto& arguments = schema.arguments();
  for (size_t place = 0; place < arguments.size(); ++place) {
    const c10::Argument& argument = arguments[place];
    if (argument.name().starts_with("cpu_")) {
      continue; // sizes of a nested tensor
    }
    if (holdsIndices(argument)) {
      indices_ = place;
    } else if (holdsTensors(argument)) {
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

c10::Device DeviceCheck::check(ArgumentSpan arguments) const {
  auto device = wrapper_.empty() ? elementwise(arguments) : exact(arguments);
  if (indices_ && device) {
    checkIndices(arguments, *device);
  }
  if (!device || !c10::openreg::isOpenReg(*device)) {
    // No tensor of ours: a factory, or a generator of ours brought the call here.
    const auto named = namedDevice(arguments);
    TORCH_CHECK(
        named || !device,
        "Expected a '",
        c10::DeviceTypeName(device->type(), /*lower_case=*/true),
        "' device type for generator but found '",
        c10::DeviceTypeName(c10::openreg::kDeviceType, /*lower_case=*/true),
        "'");
    device = named.value_or(c10::Device(c10::openreg::kDeviceType));
  }
  return {
      c10::openreg::kDeviceType,
      c10::openreg::device_or_current(device->index())};
}

std::optional<c10::Device> DeviceCheck::namedDevice(
    ArgumentSpan arguments) const {
  if (!device_) {
    return std::nullopt;
  }
  const Argument& argument = arguments[*device_];
  const c10::IValue value = argument.type->box(argument.value);
  return value.isDevice() ? std::optional(value.toDevice()) : std::nullopt;
}

void DeviceCheck::checkIndices(ArgumentSpan arguments, c10::Device indexed)
    const {
  visitTensors(arguments[*indices_], [&](const Tensor& index) {
    TORCH_CHECK(
        index.is_cpu() || index.device() == indexed,
        "indices should be either on cpu or on the same device as the indexed "
        "tensor (",
        indexed,
        ")");
  });
}

std::optional<c10::Device> DeviceCheck::exact(ArgumentSpan arguments) const {
  std::optional<c10::Device> common;
  for (const TensorArgument& argument : tensors_) {
    visitTensors(arguments[argument.place], [&](const Tensor& tensor) {
      c10::impl::check_and_update_common_device(
          common, tensor, wrapper_.c_str(), argument.name.c_str());
    });
  }
  return common;
}

std::optional<c10::Device> DeviceCheck::elementwise(
    ArgumentSpan arguments) const {
  std::optional<c10::Device> common;
  for (const TensorArgument& argument : tensors_) {
    visitTensors(arguments[argument.place], [&](const Tensor& tensor) {
      if (!common || common->is_cpu()) {
        common = tensor.device();
      }
    });
  }
  for (const TensorArgument& argument : tensors_) {
    visitTensors(arguments[argument.place], [&](const Tensor& tensor) {
      const bool hostNumber =
          !argument.output && tensor.dim() == 0 && tensor.is_cpu();
      const bool belongs = tensor.device() == *common || hostNumber;
      TORCH_CHECK(
          belongs || argument.name != "self" ||
              !operator_.starts_with("aten::masked_fill"),
          "masked_fill_: Expected inputs to be on same device");
      TORCH_CHECK(
          belongs,
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
