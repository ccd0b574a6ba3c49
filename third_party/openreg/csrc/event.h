// A point in a stream's work.
#pragma once

#include "openreg/event.h"

#include <atomic>
#include <memory>
#include <mutex>

namespace openreg {

class Device;
class Stream;

/// An event names the task count that a stream must have reached, so recording
/// queues nothing unless the time is wanted. Streams are never freed and their
/// counts only grow: a record stays meaningful when its stream is destroyed.
class Event {
 public:
  struct Record {
    Stream* stream = nullptr; // nullptr: never recorded
    uint64_t finished = 0; // what the stream must have reached
    std::shared_ptr<std::atomic<uint64_t>> time; // nullptr: without timing

    bool done() const;
  };

  void open(Device& device, unsigned flags);
  bool reusable() const {
    return true;
  }

  Device& device() const {
    return *device_.load(std::memory_order_relaxed);
  }
  bool timed() const {
    return timed_.load(std::memory_order_relaxed);
  }
  Record latest() const;
  orError_t record(Stream& stream);

 private:
  std::atomic<Device*> device_{nullptr};
  std::atomic<bool> timed_{false};
  mutable std::mutex mutex_;
  Record latest_;
};

} // namespace openreg
