// What the block pool needs of a device.
#pragma once

#include <cstddef>
#include <utility>

namespace c10::openreg {

/// Streams and events are handles that only the device understands. The calls
/// marked "waits" are made without the pool's lock.
///
/// Threads: the pool calls it from any, several at a time.
class BlockDevice {
 public:
  using Stream = void*;
  using Event = void*;

  virtual ~BlockDevice() = default;
  /// Memory of the device, for work of the stream; nullptr if there is not enough.
  virtual void* mapSegment(size_t bytes, Stream stream) = 0;
  /// Takes it back; waits for work that may use it.
  virtual void unmapSegment(void* segment) = 0;
  /// Addresses without memory, for `bytes` at least, a multiple of `unit`; {nullptr, 0}
  /// if the device has none left.
  virtual std::pair<void*, size_t> reserveRange(
      size_t /*bytes*/,
      size_t /*unit*/) {
    return {nullptr, 0};
  }
  /// Gives addresses back, all of whose memory was taken back.
  virtual void releaseRange(void* /*range*/, size_t /*bytes*/) {}
  /// Puts memory behind addresses, in pieces of `unit` bytes, for work of the stream;
  /// false, and nothing changes, if there is not enough.
  virtual bool mapRange(
      void* /*pointer*/,
      size_t /*bytes*/,
      size_t /*unit*/,
      Stream /*stream*/) {
    return false;
  }
  /// Takes whole pieces back; waits for work that may use them.
  virtual void unmapRange(void* /*pointer*/, size_t /*bytes*/) {}
  /// Throws if the device is broken: then it takes nothing back.
  virtual void checkUsable() {}
  /// An event for all work of the stream so far; nullptr if there is none to wait
  /// for.
  virtual Event record(Stream stream) = 0;
  virtual bool finished(Event event) = 0;
  /// Waits for an event; returns early if it will never happen.
  virtual void wait(Event event) = 0;
  virtual void destroy(Event event) = 0;
  /// Whether another thread runs a kernel in the stream that may allocate: what is
  /// freed meanwhile may be in use by work behind that kernel.
  virtual bool runsElsewhere(Stream /*stream*/) {
    return false;
  }
  /// {free, total} bytes, told to observers of failed allocations.
  virtual std::pair<size_t, size_t> memoryInfo() {
    return {0, 0};
  }
};

} // namespace c10::openreg
