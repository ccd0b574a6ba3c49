// Kernels of PyTorch that are the same code on every device, for sparse, quantized
// and nested tensors: they look at what these are made of and call operators on it.
#pragma once

#include "executor/ArgumentTypes.h"
#include "executor/DeviceCheck.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>

namespace at::native::openreg {

/// The device that such a call runs on, if any: that of its tensors, or the one it
/// names. Throws if the tensors must be on one device and are not.
std::optional<c10::Device> deviceOfShared(
    const DeviceCheck& devices,
    ArgumentSpan arguments);

// docs:begin shared
/// Calls the kernel itself, as PyTorch does for its own devices: with the tensors'
/// device current and, if the operator asks for it, only if all tensors are on that
/// device.
// docs:end shared
template <class Op, c10::DispatchKey key, auto kernel>
struct SharedKernel;

template <
    class Op,
    c10::DispatchKey key,
    class Result,
    class... Args,
    Result (*kernel)(Args...)>
struct SharedKernel<Op, key, kernel> {
  static Result call(Args... args) {
    static const DeviceCheck devices(
        c10::Dispatcher::singleton()
            .findSchemaOrThrow(Op::name, Op::overload_name)
            .schema(),
        c10::openreg::servedKey(key));
    const Argument arguments[] = {argument<std::remove_cvref_t<Args>>(args)...};
    const c10::OptionalDeviceGuard guard(deviceOfShared(devices, arguments));
    return kernel(std::forward<Args>(args)...);
  }
};

} // namespace at::native::openreg
