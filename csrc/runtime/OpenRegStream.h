// Streams as PyTorch sees them: values that name a stream of libopenreg.
#pragma once

#include "runtime/OpenRegDeviceType.h"
#include "runtime/OpenRegException.h"
#include "runtime/OpenRegFunctions.h"

#include <c10/core/Stream.h>

#include <tuple>

namespace c10::openreg {

// docs:begin stream-id
/// A stream of an openreg device. The StreamId is the handle of libopenreg, or 0
/// for the default stream of the device; libopenreg recognises handles that name
/// nothing, so an id made up in Python is an error and not a crash.
// docs:end stream-id
///
/// A value like c10::Stream, which it wraps: copies name the same stream, and
/// nothing is destroyed with the last of them.
///
/// Threads: any may use any stream; each thread has current streams of its own.
class OpenRegStream {
 public:
  /// Throws unless `stream` belongs to an openreg device.
  explicit OpenRegStream(Stream stream) : stream_(stream) {
    TORCH_CHECK(
        stream.device_type() == kDeviceType,
        "expected a stream of an openreg device, but got one of ",
        stream.device());
  }

  bool operator==(const OpenRegStream& other) const noexcept {
    return unwrap() == other.unwrap();
  }

  /// The handle, for calls of libopenreg.
  orStream_t stream() const;
  operator orStream_t() const {
    return stream();
  }
  operator Stream() const {
    return unwrap();
  }

  Stream unwrap() const {
    return stream_;
  }
  StreamId id() const {
    return stream_.id();
  }
  Device device() const {
    return stream_.device();
  }
  DeviceIndex device_index() const {
    return stream_.device_index();
  }

  /// Whether all work queued so far has finished.
  bool query() const;
  /// Waits until it has.
  void synchronize() const;
  int priority() const;

  /// {least, greatest}: lower numbers are served first.
  static std::tuple<int, int> priority_range();

 private:
  Stream stream_;
};

/// A stream from the device's pool for that priority, which is clamped to the
/// range. Each pool holds 32 streams, handed out in turn. -1: the current device.
OpenRegStream getStreamFromPool(int priority, DeviceIndex device = -1);
OpenRegStream getStreamFromPool(
    bool isHighPriority = false,
    DeviceIndex device = -1);

/// Wraps a stream that was created with libopenreg. The caller still owns it, and keeps
/// it alive while PyTorch uses it.
OpenRegStream getStreamFromExternal(orStream_t stream, DeviceIndex device);

OpenRegStream getDefaultOpenRegStream(DeviceIndex device = -1);

/// The calling thread's stream for a device.
OpenRegStream getCurrentOpenRegStream(DeviceIndex device = -1);
void setCurrentOpenRegStream(OpenRegStream stream);

/// The same for a device that is known to exist, a tensor's.
OpenRegStream currentStreamOf(Device device) noexcept;

/// Sets it and returns the previous one.
Stream exchangeCurrentStream(Stream stream);

/// Keeps a stream busy for that many cycles of its device's clock, for tests;
/// throws if they are negative.
void sleep(const OpenRegStream& stream, int64_t cycles);

} // namespace c10::openreg

template <>
struct std::hash<c10::openreg::OpenRegStream> {
  size_t operator()(const c10::openreg::OpenRegStream& stream) const noexcept {
    return std::hash<c10::Stream>()(stream.unwrap());
  }
};
