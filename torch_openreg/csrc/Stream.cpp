// Streams: what torch.Stream does not offer of them.
#include "Module.h"

#include "runtime/OpenRegStream.h"
#include "runtime/OpenRegTrace.h"

#include <tuple>

namespace torch::openreg {
namespace {

using c10::openreg::OpenRegStream;

// What Python rebuilds a stream from: id, device index, device type.
using Packed = std::tuple<int64_t, int64_t, int64_t>;

Packed pack(const OpenRegStream& stream) {
  const c10::StreamData3 data = stream.unwrap().pack3();
  return {
      data.stream_id,
      data.device_index,
      static_cast<int64_t>(data.device_type)};
}

OpenRegStream unpack(
    int64_t id,
    int64_t device,
    int64_t type = static_cast<int64_t>(c10::openreg::kDeviceType)) {
  const OpenRegStream stream(c10::Stream::unpack3(
      id, toIndex(device), static_cast<c10::DeviceType>(type)));
  c10::openreg::check_device_index(stream.device_index());
  return stream;
}

Packed getCurrentStream(int64_t device) {
  return pack(c10::openreg::getCurrentOpenRegStream(toIndex(device)));
}

Packed getDefaultStream(int64_t device) {
  return pack(c10::openreg::getDefaultOpenRegStream(toIndex(device)));
}

// Also makes the stream's device current, as torch.cuda does. Asking for the
// priority finds an id that names no stream, which would fail much later.
void setStream(int64_t id, int64_t device, int64_t type) {
  const OpenRegStream stream = unpack(id, device, type);
  stream.priority();
  c10::openreg::setCurrentOpenRegStream(stream);
  c10::openreg::ExchangeDevice(stream.device_index());
}

int getPriority(int64_t id, int64_t device) {
  return unpack(id, device).priority();
}

uintptr_t getHandle(int64_t id, int64_t device) {
  return c10::openreg::numberOf(unpack(id, device).stream());
}

int64_t fromExternal(uintptr_t handle, int64_t device) {
  if (handle == 0) { // as CUDA's
    return c10::openreg::getDefaultOpenRegStream(toIndex(device)).id();
  }
  return c10::openreg::getStreamFromExternal(
             reinterpret_cast<orStream_t>(handle), toIndex(device))
      .id();
}

void sleep(int64_t cycles) {
  c10::openreg::sleep(c10::openreg::getCurrentOpenRegStream(), cycles);
}

} // namespace

void addStream(py::module_& module) {
  module.def(
      "_getCurrentStream",
      torch::wrap_pybind_function(getCurrentStream),
      py::arg("device"));
  module.def(
      "_getDefaultStream",
      torch::wrap_pybind_function(getDefaultStream),
      py::arg("device"));
  module.def(
      "_setStream",
      torch::wrap_pybind_function(setStream),
      py::arg("stream_id"),
      py::arg("device_index"),
      py::arg("device_type"));
  module.def(
      "_getStreamPriority",
      torch::wrap_pybind_function(getPriority),
      py::arg("stream_id"),
      py::arg("device_index"));
  module.def(
      "_getStreamPriorityRange",
      torch::wrap_pybind_function(OpenRegStream::priority_range));
  module.def(
      "_getStreamHandle",
      torch::wrap_pybind_function(getHandle),
      py::arg("stream_id"),
      py::arg("device_index"));
  module.def(
      "_streamFromExternal",
      torch::wrap_pybind_function(fromExternal),
      py::arg("handle"),
      py::arg("device_index"));
  module.def(
      "_sleep", torch::wrap_pybind_function_no_gil(sleep), py::arg("cycles"));
}

} // namespace torch::openreg
