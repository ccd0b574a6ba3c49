// What a hostile rank may write to the memory that ranks share: for the fuzzer, and for
// the tests.
#pragma once

#include "distributed/SharedTransport.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <unistd.h>

namespace board_samples {

using namespace c10::openreg::occl;
namespace remote = c10::openreg::remote;

constexpr size_t kDevice = 1 << 20; // bytes of each rank's memory

/// Rank 0 of two, and the line of the other as bytes.
class Victim {
 public:
  Victim()
      : board_(remote::makeSharedMemory("board", SharedBoard::bytesFor(2))),
        map_(board_, SharedBoard::bytesFor(2)),
        files_{
            remote::makeSharedMemory("own", kDevice),
            remote::makeSharedMemory("other", kDevice)},
        own_(files_[0], kDevice) {}

  static size_t lineBytes() {
    return SharedBoard::bytesFor(2) / 2 - 4 * SharedBoard::kStaging;
  }
  char* otherLine() {
    return map_.data() + lineBytes();
  }

  /// What rank 1 writes if it makes the same call.
  std::string honestLine(Collective call) {
    if (call.kind == Kind::Broadcast) {
      call.inputs = call.outputs; // it is the root
    }
    std::memset(map_.data(), 0, 2 * lineBytes());
    run(call, 1, within(0));
    std::string line(otherLine(), lineBytes());
    constexpr size_t kFailed = 8; // nobody came, which it has told
    std::memset(line.data() + kFailed, 0, sizeof(uint32_t));
    return line;
  }

  /// Rank 0 makes a call while those bytes are in the other's line. It may fail, and
  /// that is all that may happen. Returns whether it did not.
  bool read(const Collective& call, const std::string& line) {
    std::memset(map_.data(), 0, lineBytes());
    std::memcpy(otherLine(), line.data(), std::min(line.size(), lineBytes()));
    const uint32_t here = 1000; // it has come to every meeting
    std::memcpy(otherLine(), &here, sizeof(here));
    return run(call, 0, within(20));
  }

  Collective allReduce(size_t bytes, size_t offset = 0) {
    Collective call;
    call.kind = Kind::AllReduce;
    call.type = DataType::Float;
    call.operation = Operation::Sum;
    call.inputs = call.outputs = {{own_.data() + offset, bytes}};
    return call;
  }
  Collective broadcast(size_t bytes) {
    Collective call;
    call.kind = Kind::Broadcast;
    call.root = 1;
    call.outputs = {{own_.data(), bytes}};
    return call;
  }
  Collective allToAll(size_t bytes) {
    Collective call;
    call.kind = Kind::AllToAll;
    call.inputs = {{own_.data(), bytes}, {own_.data() + bytes, bytes}};
    call.outputs = {
        {own_.data() + 2 * bytes, bytes}, {own_.data() + 3 * bytes, bytes}};
    return call;
  }
  /// Small, in place, and of each way to move bytes.
  std::vector<Collective> calls() {
    return {
        allReduce(64),
        allReduce(100'000),
        broadcast(100'000),
        allToAll(64),
        allToAll(50'000)};
  }

 private:
  static Deadline within(int milliseconds) {
    return std::chrono::steady_clock::now() +
        std::chrono::milliseconds(milliseconds);
  }

  bool run(const Collective& call, int rank, Deadline deadline) {
    std::vector<SharedTransport::Rank> ranks;
    for (int other = 0; other < 2; ++other) {
      const auto& file = files_[static_cast<size_t>(other)];
      ranks.push_back(
          {getpid(),
           {{other == rank ? own_.data() : nullptr,
             addressOf(file.get(), kDevice)}}});
    }
    SharedTransport transport(
        remote::Mapping(board_, SharedBoard::bytesFor(2)),
        rank,
        std::move(ranks),
        "g");
    try {
      transport.run(call, deadline);
      return true;
    } catch (const Failure&) {
      return false; // refused, or the deadline
    }
  }

  remote::Descriptor board_;
  remote::Mapping map_;
  remote::Descriptor files_[2];
  remote::Mapping own_;
};

} // namespace board_samples
