// What the processes tell each other outside of operator calls: start-up, new channels,
// descriptors.
#pragma once

#include "remote/Descriptor.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace c10::openreg::remote {

// docs:begin control-messages
enum class ControlKind : uint32_t {
  Start = 1, // driver, first: version, device, memory and status page
  Ready, // device: its answer
  NewChannel, // driver: a channel's memory; a thread of the device serves it
};

/// A message of the control socket. Descriptors travel with it.
struct ControlMessage {
  ControlKind kind{};
  uint32_t version = 0;
  int32_t device = -1; // its index in the driver
  int32_t driver = 0; // process id
  uint64_t memoryBytes = 0;
};
// docs:end control-messages

/// One end of a socket pair that nobody else can connect to. Ends with the process
/// that holds the other end.
///
/// Threads: one may send while another receives.
class ControlSocket {
 public:
  ControlSocket() = default;
  explicit ControlSocket(Descriptor socket) : socket_(std::move(socket)) {}

  /// Both ends; they are not inherited by programs that are started.
  static std::pair<ControlSocket, ControlSocket> makePair();

  int descriptor() const {
    return socket_.get();
  }

  /// Returns false if the other end is gone.
  bool send(
      const ControlMessage& message,
      std::initializer_list<int> descriptors = {});

  struct ReceivedMessage {
    ControlMessage message;
    std::vector<Descriptor> descriptors;
  };
  /// Waits at most `milliseconds`, -1: for ever. Empty if the other end is gone, sends
  /// something that is not a message, or sends nothing in that time.
  std::optional<ReceivedMessage> receive(int milliseconds);

  /// Whether the other end belongs to the same user.
  bool peerIsSameUser() const;

 private:
  Descriptor socket_;
};

} // namespace c10::openreg::remote
