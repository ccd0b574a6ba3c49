#include "executor/SharedKernel.h"

namespace at::native::openreg {

std::optional<c10::Device> deviceOfShared(
    const DeviceCheck& devices,
    ArgumentSpan arguments) {
  std::optional<c10::Device> device;
  bool same = true;
  visitTensors(arguments, [&](const Tensor& tensor) {
    same &= !device || *device == tensor.device();
    if (!device || device->is_cpu()) {
      device = tensor.device();
    }
  });
  if (C10_UNLIKELY(!same && devices.isExact())) {
    devices.check(arguments);
  }
  if (const auto named = devices.namedDevice(arguments);
      named && c10::openreg::isOpenReg(*named)) {
    device = named;
  }
  return device && device->has_index() ? device : std::nullopt;
}

} // namespace at::native::openreg
