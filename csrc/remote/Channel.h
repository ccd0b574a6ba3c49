// Memory that a thread of the driver and one of the device process talk through.
#pragma once

#include "remote/Descriptor.h"

#include <cstdint>
#include <functional>
#include <span>

namespace c10::openreg::remote {

/// Who may write to a channel.
enum class Side : uint32_t { Driver = 0, Device = 1 };

// docs:begin channel-turns
/// One buffer, and a word that says whose turn it is. The side that has the turn reads
/// the message in the buffer, overwrites it with another one and passes the turn on. So
/// messages alternate, and the memory needs no other synchronisation.
///
/// The buffer is larger than any message will be; pages that a long message touched go
/// back to the system.
///
/// Threads: one of each process; close() may be called by any.
// docs:end channel-turns
class Channel {
 public:
  /// The driver makes channels and sends the memory to the device process.
  Channel();
  /// The device process's end.
  explicit Channel(const Descriptor& memory);

  const Descriptor& memory() const {
    return memory_;
  }

  /// Room for the next message, of the side that has the turn.
  std::span<char> room();

  /// The message that came with the turn.
  std::span<const char> message() const;

  /// Gives the turn to `side`, with the first `bytes` of room() as the message.
  void pass(Side side, size_t bytes);

  /// Waits for the turn. `lost` is asked every now and then whether to give up.
  /// Returns false if it says so, or if the channel was closed.
  bool await(Side side, const std::function<bool()>& lost);

  /// No more turns: the other side's await() returns false.
  void close();

 private:
  struct Page;

  Page& page() const;

  Descriptor memory_;
  Mapping mapping_;
};

} // namespace c10::openreg::remote
