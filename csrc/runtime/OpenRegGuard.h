// How PyTorch changes devices, streams and events without knowing the backend.
#pragma once

#include "runtime/OpenRegStream.h"

#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/InlineDeviceGuard.h>
#include <c10/core/impl/InlineStreamGuard.h>

namespace c10::openreg {

/// The implementation behind c10::DeviceGuard, c10::StreamGuard and c10::Event
/// for openreg. Methods that PyTorch calls from destructors never throw.
///
/// Threads: any may call anything; there is one for all.
struct OpenRegGuardImpl final : c10::impl::DeviceGuardImplInterface {
  static inline const DeviceType static_type = kDeviceType;

  OpenRegGuardImpl() = default;
  /// Throws unless `type` is this guard's: the guards of c10 ask for it.
  explicit OpenRegGuardImpl(DeviceType type) {
    TORCH_INTERNAL_ASSERT(type == static_type, "not a device of ours: ", type);
  }

  DeviceType type() const override {
    return static_type;
  }

  // --- devices ---
  Device exchangeDevice(Device device) const override;
  Device getDevice() const override;
  void setDevice(Device device) const override;
  void uncheckedSetDevice(Device device) const noexcept override;
  DeviceIndex deviceCount() const noexcept override;
  DeviceCapability getDeviceCapability(Device device) const override;
  void synchronizeDevice(DeviceIndex device) const override;

  // --- streams ---
  Stream getStream(Device device) const override;
  Stream getDefaultStream(Device device) const override;
  Stream getNewStream(Device device, int priority = 0) const override;
  Stream getStreamFromGlobalPool(Device device, bool isHighPriority = false)
      const override;
  Stream exchangeStream(Stream stream) const override;
  void* getStreamNativeHandle(Stream stream) const override;
  bool queryStream(const Stream& stream) const override;
  void synchronizeStream(const Stream& stream) const override;
  bool isStreamCapturing(const Stream& stream) const override;
  void recordDataPtrOnStream(const DataPtr& data, const Stream& stream)
      const override;

  // --- events: `event` is an orEvent_t ---
  void destroyEvent(void* event, DeviceIndex device) const noexcept override;
  void record(
      void** event,
      const Stream& stream,
      DeviceIndex device,
      EventFlag flag) const override;
  void block(void* event, const Stream& stream) const override;
  bool queryEvent(void* event) const override;
  void synchronizeEvent(void* event) const override;
  double elapsedTime(void* start, void* end, DeviceIndex device) const override;
};

/// Gives an event of PyTorch that was never recorded a handle of libopenreg, which it
/// destroys in the end.
void adoptEvent(Event& event, orEvent_t handle, DeviceIndex device);

/// Makes a device current for a scope: `OpenRegGuard guard(tensor.device());`
class OpenRegGuard : public c10::impl::InlineDeviceGuard<OpenRegGuardImpl> {
 public:
  using InlineDeviceGuard::InlineDeviceGuard;
};

/// Makes a stream and its device current for a scope.
class OpenRegStreamGuard
    : public c10::impl::InlineStreamGuard<OpenRegGuardImpl> {
 public:
  using InlineStreamGuard::InlineStreamGuard;
};

} // namespace c10::openreg
