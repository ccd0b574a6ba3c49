// Whether the tensors of a call may be used together.
#pragma once

#include "executor/Argument.h"
#include "runtime/OpenRegDeviceType.h"

#include <ATen/core/function_schema.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>

#include <optional>
#include <string>
#include <vector>

namespace at::native::openreg {

// docs:begin device-check
/// CUDA's rules for the devices of an operator's tensors, with CUDA's messages.
///
/// Most operators want all tensors on one device. Element-wise ones also accept
/// 0-dim CPU tensors, and indexing accepts CPU tensors as indices.
// docs:end device-check
class DeviceCheck {
 public:
  /// `key`: the one the operator's kernel is registered for.
  explicit DeviceCheck(
      const c10::FunctionSchema& schema,
      c10::DispatchKey key = c10::openreg::kKey);

  /// The device the call runs on: that of its tensors, or of its `device`
  /// argument. Throws if the tensors do not belong together.
  c10::Device check(ArgumentSpan arguments) const;

  /// The device that the `device` argument names, if there is one.
  std::optional<c10::Device> namedDevice(ArgumentSpan arguments) const;

  /// Whether all tensors must be on one device.
  bool isExact() const {
    return !wrapper_.empty();
  }

 private:
  struct TensorArgument {
    size_t place;
    std::string name;
    bool output;
  };

  std::optional<c10::Device> exact(ArgumentSpan arguments) const;
  std::optional<c10::Device> elementwise(ArgumentSpan arguments) const;
  void checkIndices(ArgumentSpan arguments, c10::Device indexed) const;

  std::string operator_;
  std::string wrapper_; // empty: the element-wise rule
  std::vector<TensorArgument> tensors_; // outputs first, as CUDA looks at them
  std::optional<size_t> indices_; // place of the `indices` argument
  std::optional<size_t> device_; // place of the `device` argument
};

} // namespace at::native::openreg
