// Memory that a thread of the driver and one of the device process talk through.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

namespace c10::openreg::remote {

/// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const {
    return number_;
  }
  explicit operator bool() const {
    return number_ >= 0;
  }

 private:
  int number_ = -1;
};

/// Memory without a name, shared by whoever has the descriptor, that takes up only
/// the pages that were touched. Throws std::system_error.
Descriptor makeSharedMemory(const char* name, size_t bytes);

/// Shared memory mapped into this process.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const Descriptor& memory, size_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  char* data() const {
    return data_;
  }
  size_t size() const {
    return bytes_;
  }

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Who may write to a channel.
enum class Side : uint32_t { Driver = 0, Device = 1 };

// docs:begin channel-turns
/// One buffer, and a word that says whose turn it is. Who has the turn reads the
/// message in the buffer, writes another one over it and passes the turn on. So
/// messages alternate, and the memory needs no other order.
///
/// The buffer is larger than any message will be; pages that a long one touched go
/// back to the system.
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
