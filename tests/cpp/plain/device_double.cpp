// A device process without torch, for device_process_tests.cpp: it speaks the wire as
// the real one does, and its operators do to a call's memory what a test wants.
//
//   increment  adds 1 to each byte of the storages
//   ask        asks for as many bytes as the first value says, fills them with 7 and
//              returns their storage
//   fail       answers with an error
//   die, stop  never answer: the process is killed, or stops
//   babble     answers with something that is no message
#include "remote/Channel.h"
#include "remote/ControlSocket.h"
#include "remote/StatusPage.h"
#include "remote/Wire.h"

#include <csignal>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace c10::openreg::remote;

namespace {

// Held where the device's memory is touched. It is the driver that gives memory to
// one call after the other, in another process, where ThreadSanitizer does not see it.
std::mutex touching;

class Server {
 public:
  Server(const Mapping& memory, Channel& channel)
      : memory_(memory), channel_(channel) {}

  void run() {
    while (channel_.await(Side::Device, nullptr)) {
      // A copy: the answer is written over the message.
      const auto message = channel_.message();
      const std::vector<char> copy(message.begin(), message.end());
      answer(copy);
    }
  }

 private:
  void answer(const std::vector<char>& message) {
    WireCall call;
    parseCall(message, memory_.size(), call);
    if (call.name == "increment") {
      increment(call);
    } else if (call.name == "ask") {
      ask(static_cast<uint64_t>(call.values.at(0).number));
    } else if (call.name == "fail") {
      Writer writer(channel_.room());
      writer.put(MessageKind::Error);
      writer.putAll(std::span<const uint64_t>()); // freed
      writer.put(ErrorKind::Value);
      writer.putText("it failed");
      channel_.pass(Side::Driver, writer.size());
    } else if (call.name == "babble") {
      channel_.pass(Side::Driver, 3);
    } else {
      raise(call.name == "stop" ? SIGSTOP : SIGKILL);
    }
  }

  void increment(const WireCall& call) {
    for (const WireStorage& storage : call.storages) {
      const std::lock_guard lock(touching);
      for (size_t i = 0; i < storage.bytes; ++i) {
        ++memory_.data()[storage.offset + i];
      }
    }
    passResult({});
  }

  void ask(uint64_t bytes) {
    Writer writer(channel_.room());
    writer.put(MessageKind::Allocate);
    writer.putAll(std::span<const uint64_t>()); // freed
    writer.put(bytes);
    channel_.pass(Side::Driver, writer.size());
    if (!channel_.await(Side::Device, nullptr)) {
      return;
    }
    const auto given = parseAllocation(channel_.message());
    if (!given) {
      passResult({});
      return;
    }
    {
      const std::lock_guard lock(touching);
      std::memset(memory_.data() + *given, 7, bytes);
    }
    passResult({{StorageKind::Device, *given, bytes, {}}});
  }

  void passResult(const std::vector<WireStorage>& storages) {
    Writer writer(channel_.room());
    writer.put(MessageKind::Result);
    for (int i = 0; i < 3; ++i) { // freed, warnings, resizes
      writer.put<uint64_t>(0);
    }
    writer.put<uint64_t>(storages.size());
    for (const WireStorage& storage : storages) {
      putStorage(writer, storage);
    }
    for (int i = 0; i < 3; ++i) { // tensors, changes, values
      writer.put<uint64_t>(0);
    }
    channel_.pass(Side::Driver, writer.size());
  }

  const Mapping& memory_;
  Channel& channel_;
};

void serve(const Mapping& memory, Descriptor descriptor) {
  Channel channel(descriptor);
  Server(memory, channel).run();
}

} // namespace

int main() {
  ControlSocket control((Descriptor(kControlDescriptor)));
  const auto hello = control.receive(/*milliseconds=*/-1);
  if (!hello || hello->message.kind != ControlKind::Start ||
      hello->descriptors.size() != 2 || !control.peerIsSameUser()) {
    return 1;
  }
  const Mapping memory(hello->descriptors[1], hello->message.memoryBytes);
  ControlMessage ready;
  ready.kind = ControlKind::Ready;
  ready.version = kWireVersion;
  control.send(ready);
  // Ends with the driver.
  while (auto message = control.receive(/*milliseconds=*/-1)) {
    std::thread(serve, std::cref(memory), std::move(message->descriptors.at(0)))
        .detach();
  }
  _exit(0); // whatever the threads do
}
