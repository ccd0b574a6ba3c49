// Events as PyTorch sees them: owned, movable, made on first use.
#pragma once

#include "runtime/OpenRegStream.h"

#include <utility>

namespace c10::openreg {

// --- events of libopenreg, each step told to PyTorch's GPU trace ---

/// A new event on a device.
orEvent_t createEvent(DeviceIndex device, unsigned flags);
void destroyEvent(orEvent_t event) noexcept;
/// Lets the event stand for all work queued in the stream so far.
void recordEvent(orEvent_t event, const OpenRegStream& stream);
/// Makes later work of the stream wait for the event.
void waitForEvent(const OpenRegStream& stream, orEvent_t event);
/// Whether the work an event stands for has finished.
bool queryEvent(orEvent_t event);
/// Makes the host wait for it.
void synchronizeEvent(orEvent_t event);

/// A point in a stream's work. The event of libopenreg is made by the first
/// record(), on the stream's device, so an OpenRegEvent may be declared before
/// anyone knows the device.
///
/// Threads: one at a time, except for the const methods.
class OpenRegEvent {
 public:
  explicit OpenRegEvent(unsigned flags = orEventDisableTiming) noexcept
      : flags_(flags) {}
  OpenRegEvent(OpenRegEvent&& other) noexcept {
    *this = std::move(other);
  }
  OpenRegEvent& operator=(OpenRegEvent&& other) noexcept {
    std::swap(flags_, other.flags_);
    std::swap(device_, other.device_);
    std::swap(event_, other.event_);
    return *this;
  }
  OpenRegEvent(const OpenRegEvent&) = delete;
  OpenRegEvent& operator=(const OpenRegEvent&) = delete;
  ~OpenRegEvent();

  bool isCreated() const {
    return event_ != nullptr;
  }
  /// The device it was recorded on; -1 before.
  DeviceIndex device_index() const {
    return device_;
  }
  orEvent_t event() const {
    return event_;
  }

  /// Stands for all work queued in the stream so far. Throws if the event was
  /// recorded on another device.
  void record(const OpenRegStream& stream);
  /// Makes later work of the stream wait; an unrecorded event is not waited for.
  void block(const OpenRegStream& stream) const;
  /// Whether the work has finished; true if nothing was recorded.
  bool query() const;
  void synchronize() const;
  /// Milliseconds from this event to `end`, both timed, recorded and finished.
  float elapsed_time(const OpenRegEvent& end) const;

 private:
  unsigned flags_ = orEventDisableTiming;
  DeviceIndex device_ = -1;
  orEvent_t event_ = nullptr;
};

} // namespace c10::openreg
