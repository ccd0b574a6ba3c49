// One device: its error, its memory, its default stream, its peers.
#pragma once

#include "openreg/device.h"
#include "config.h"
#include "error.h"
#include "memory.h"
#include "priority_gate.h"
#include "stream.h"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace openreg {

struct Runtime;

/// A part of the Runtime, and never destroyed.
///
/// Threads: any may call anything.
class Device {
 public:
  Device(int index, const Config& config, Runtime& runtime);

  int index() const {
    return index_;
  }
  const orDeviceProp& properties() const {
    return properties_;
  }
  DeviceMemory& memory() {
    return memory_;
  }
  PriorityGate& gate() {
    return gate_;
  }
  orStream_t defaultStreamHandle() const {
    return defaultStreamHandle_;
  }
  Stream& defaultStream() const {
    return *defaultStream_;
  }

  /// Whether the process has memory or a worker of the device.
  std::atomic<bool> active{false};

  // --- errors of kernels ---

  /// Whether work is dropped because a kernel failed or the device is being
  /// reset.
  bool dropsWork() const {
    return dropsWork_.load(std::memory_order_relaxed);
  }

  /// Notes that a task failed; the first failure counts.
  void breakWith(orError_t error, const std::string& detail);

  /// The error of a broken device, for calls that launch or use it.
  orError_t check() {
    return dropsWork() ? reportBroken() : orSuccess;
  }

  /// The same for calls that synchronise. With OPENREG_DEVICE_ASSERT=raise this
  /// reports an error once and clears it.
  orError_t checkAfterWait() {
    return failed_.load(std::memory_order_acquire) ? reportFailure()
                                                   : orSuccess;
  }

  // --- all streams at once ---

  bool idle();
  orError_t waitForAll();
  orError_t reset();

  // --- streams that share order with the default stream, see submit.cpp ---

  std::atomic<int> blockingStreams{0};
  /// Streams with another priority than 0; the gate is used if there are any.
  std::atomic<int> prioritizedStreams{0};

  // --- peers ---

  orError_t setPeerAccess(const Device& peer, bool enabled);
  bool canReach(int device) const;

 private:
  orError_t reportBroken();
  orError_t reportFailure();
  /// Whether the error is one that only a reset clears.
  bool sticky() const {
    return stickyErrors_ && error_ != orErrorCommunication;
  }

  const int index_;
  const orDeviceProp properties_;
  const bool stickyErrors_;
  Runtime& runtime_;
  DeviceMemory memory_;
  PriorityGate gate_;
  orStream_t defaultStreamHandle_ = nullptr;
  Stream* defaultStream_ = nullptr;

  std::atomic<bool> dropsWork_{false};
  std::atomic<bool> failed_{false};
  std::mutex errorMutex_;
  orError_t error_ = orSuccess;
  std::string errorDetail_;
  std::mutex resetMutex_;
  std::atomic<uint64_t> peers_{0}; // bit i: device i may be reached
};

} // namespace openreg
