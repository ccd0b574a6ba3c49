// A point in a stream's work.
#pragma once

#include "openreg/event.h"
#include "ipc_event.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace openreg {

class Device;
class Stream;
struct CapturedPoint;

/// An event names the task count that a stream must have reached, so recording
/// queues nothing unless the time is wanted. Streams are never freed and their
/// counts only grow: a record stays meaningful when its stream is destroyed.
///
/// Threads: any may call anything.
class Event {
 public:
  struct Record {
    Stream* stream = nullptr; // nullptr: not recorded, or by another process
    uint64_t finished = 0; // what the stream must have reached
    std::shared_ptr<std::atomic<uint64_t>> time; // nullptr: without timing
    ipc::EventState shared; // of an event for several processes
    uint64_t number = 0; // which of its records this is; 0: none
    // Of a record in a capturing stream, which names no work; else nullptr.
    std::shared_ptr<const CapturedPoint> captured;

    bool made() const {
      return stream || number != 0 || captured;
    }

    /// Whether the work was recorded by another process.
    bool foreign() const {
      return !stream && number != 0;
    }
    /// orSuccess if the work has finished, orErrorNotReady if it has not, or why
    /// it never will.
    orError_t query() const;
    orError_t wait() const;
  };

  /// `shared` is for orEventInterprocess; `opened`: it is another process's.
  void open(
      Device& device,
      unsigned flags,
      ipc::EventState shared = {},
      bool opened = false);
  void close();
  bool reusable() const {
    return true;
  }

  Device& device() const {
    return *device_.load(std::memory_order_relaxed);
  }
  bool timed() const {
    return timed_.load(std::memory_order_relaxed);
  }
  bool opened() const {
    return opened_.load(std::memory_order_relaxed);
  }
  /// Empty unless the event is for several processes.
  ipc::EventState shared() const;
  Record latest() const;
  orError_t record(Stream& stream);

  // --- records that a launch of a graph makes ---

  /// A record to come; stamp() is to follow when its time has come.
  Record prepare(Stream& stream);
  static void stamp(const Record& record);
  /// Makes it the latest.
  void publish(const Record& record);

 private:
  orError_t recordShared(Stream& stream);

  std::atomic<Device*> device_{nullptr};
  std::atomic<bool> timed_{false};
  std::atomic<bool> interprocess_{false};
  std::atomic<bool> opened_{false};
  mutable std::mutex mutex_;
  Record latest_; // of this process
};

/// The error for an event that a process recorded and did not live to finish.
std::string describeLoss(const ipc::EventState& state);

orError_t failOnTooManyEvents();

} // namespace openreg
