// Kernels of PyTorch that are the same code on every device, for sparse, quantized
// and nested tensors: they look at what these are made of and call operators on it.
#pragma once

#include "aten/native/Typed.h"

#include <c10/core/DeviceGuard.h>

namespace at::native::openreg {

/// The device that an argument names, if it does.
inline std::optional<c10::Device> namedDevice(
    const std::optional<c10::Device>& device) {
  return device;
}
template <class T>
std::optional<c10::Device> namedDevice(const T& /*no device*/) {
  return std::nullopt;
}

// docs:begin shared
/// The kernel itself, called as PyTorch calls it for a device of its own: all
/// tensors on one device if the operator asks for it, and that one current.
// docs:end shared
template <class Op, c10::DispatchKey key, auto kernel>
struct Shared;

template <
    class Op,
    c10::DispatchKey key,
    class Result,
    class... Args,
    Result (*kernel)(Args...)>
struct Shared<Op, key, kernel> {
  static Result call(Args... args) {
    static const DeviceCheck devices(Prepared<Op>::get().schema, key);
    std::optional<c10::Device> device;
    bool same = true;
    const auto look = [&](const Tensor& tensor) {
      same &= !device || *device == tensor.device();
      if (!device || device->is_cpu()) {
        device = tensor.device();
      }
    };
    (visitTensors(args, look), ...);
    if (C10_UNLIKELY(!same && devices.isExact())) {
      const auto boxed = c10::impl::boxArgs(args...);
      devices.check(boxed.begin());
    }
    const auto name = [&](const std::optional<c10::Device>& named) {
      device = named && named->is_privateuseone() ? named : device;
    };
    (name(namedDevice(args)), ...);
    const c10::OptionalDeviceGuard guard(
        device && device->has_index() ? device : std::nullopt);
    return kernel(std::forward<Args>(args)...);
  }
};

} // namespace at::native::openreg
