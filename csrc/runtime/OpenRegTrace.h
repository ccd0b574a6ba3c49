// Reports what happens on the device to PyTorch's GPU-trace callbacks, the functions
// that programs register with torch.openreg._gpu_trace.
#pragma once

#include "runtime/OpenRegDeviceType.h"

#include <openreg.h>

#include <c10/core/impl/GPUTrace.h>
#include <c10/macros/Macros.h>

#include <cstdint>

namespace c10::openreg {

/// The kinds of callbacks: trace_gpu_event_creation() and others.
using Trace = c10::impl::PyInterpreterVTable;

/// How programs name events and memory.
inline uintptr_t numberOf(const void* handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

/// How programs name a stream. Programs for CUDA call a default stream 0.
uintptr_t numberOf(orStream_t stream);

/// Whether any callback is registered.
inline bool isTraced() noexcept {
  return c10::impl::GPUTrace::get_trace() != nullptr;
}

// docs:begin gpu-trace
/// Calls one of the callbacks, if somebody listens. It takes the GIL, so call it without
/// holding any of our locks.
template <class... Arguments>
inline void trace(
    void (Trace::*callback)(DeviceType, Arguments...) const,
    Arguments... arguments) {
  const c10::impl::PyInterpreter* listener = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(listener != nullptr)) {
    ((**listener).*callback)(kDeviceType, arguments...);
  }
}
// docs:end gpu-trace

} // namespace c10::openreg
