// Captures: streams whose work is recorded into a graph instead of being run.
#pragma once

#include "openreg/capture.h"
#include "graph.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace openreg {

class Device;
class Stream;
struct Work;

/// One capture, from its begin to its end. Everything but the constants is guarded
/// by the lock of Captures.
struct Capture {
  enum class State : uint8_t { Active, Invalidated, Ended };

  /// A stream of the capture, and the nodes that its next one comes after.
  struct Member {
    Stream* stream;
    std::vector<uint32_t> frontier;
  };

  unsigned long long id;
  orStreamCaptureMode mode;
  uint64_t thread; // that began it
  State state = State::Active;
  std::vector<Member> members; // the first is where it began
  GraphNodes nodes;

  /// Whether a stream of the device takes part.
  bool uses(const Device& device) const;
};

/// The error for what uses an invalidated capture.
orError_t failOnInvalidated(const Capture& capture);

/// Fails with `code` and invalidates the capture. If it is invalidated already, fails
/// because of that. `format` is a literal with the number of a stream in it.
orError_t failAndInvalidate(
    Capture& capture,
    orError_t code,
    const char* format,
    unsigned long long stream);

/// Sets the calling thread's mode, see orThreadExchangeStreamCaptureMode().
orStreamCaptureMode exchangeThreadMode(orStreamCaptureMode mode);

/// What an event stands for that was recorded in a capturing stream.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;
  std::vector<uint32_t> frontier;
};

/// All captures of the process. Each function that returns an error has set the
/// thread's.
///
/// Threads: any; one lock guards all captures. While there is none, a check costs
/// one load.
class Captures {
 public:
  // --- the life of a capture ---

  orError_t begin(Stream& stream, orStreamCaptureMode mode);
  /// Ends it; `nodes` is what it recorded, also if that is of no use.
  orError_t end(Stream& stream, GraphNodes* nodes);
  /// The stream is being destroyed. If the capture began there, it is over; what is
  /// returned is to be destroyed where no lock is held.
  std::shared_ptr<Capture> leave(Stream& stream);
  orStreamCaptureStatus status(const Stream& stream, unsigned long long* id);

  // --- what is recorded; the stream is capturing ---

  /// `awaited`: the caller would wait for the work, which a capture cannot.
  orError_t add(Stream& stream, const Work& work, bool awaited);
  orError_t add(Stream& stream, std::shared_ptr<GraphNode> node);
  /// Where the stream stands, for an event.
  orError_t point(Stream& stream, std::shared_ptr<const CapturedPoint>* point);
  /// Makes later work of the stream come after the event's, and thereby takes the
  /// stream into the event's capture. `captured` is nullptr if the event was
  /// recorded elsewhere.
  orError_t join(Stream& stream, const CapturedPoint* captured);

  // --- calls that conflict with a capture: they fail, and invalidate it ---

  /// For calls that are unsafe while a capture lasts, as its mode says.
  orError_t checkSafe(const char* what) {
    return any() ? checkSafeSlowly(what) : orSuccess;
  }
  /// For calls that wait for a whole device.
  orError_t checkDevice(const Device& device) {
    return any() ? checkDeviceSlowly(device) : orSuccess;
  }
  /// For calls that wait for a stream or ask about it.
  orError_t checkStream(Stream& stream);
  /// For calls that wait for an event or ask about it. `captured` may be nullptr.
  orError_t checkEvent(const CapturedPoint* captured, const char* what);
  /// For the default stream, which cannot be ordered after a capturing stream.
  orError_t failOnImplicit(Stream& capturing);
  /// The same as a question.
  bool anyBlocking(const Device& device);
  /// A device is being reset.
  void invalidate(const Device& device);
  /// A fault plan invalidates the capture of a stream.
  void invalidate(const Stream& stream);

 private:
  struct Place {
    std::shared_ptr<Capture> capture; // nullptr: the stream is in none
    Capture::Member* member = nullptr;
  };

  bool any() const {
    return count_.load(std::memory_order_relaxed) != 0;
  }
  orError_t checkSafeSlowly(const char* what);
  orError_t checkDeviceSlowly(const Device& device);
  template <class Doomed>
  orError_t invalidateWhere(Doomed doomed);

  // With the lock held.
  Place find(const Stream& stream) const;
  orError_t findActive(Stream& stream, Place* place) const;
  void finish(const std::shared_ptr<Capture>& capture);

  std::mutex mutex_;
  std::vector<std::shared_ptr<Capture>> captures_; // not ended
  std::atomic<size_t> count_{0};
  unsigned long long lastId_ = 0;
};

} // namespace openreg
