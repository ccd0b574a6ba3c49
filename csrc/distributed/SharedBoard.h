// Memory that the ranks of one host share: how far each has come, and room for small
// messages. Free of torch.
#pragma once

#include "distributed/Collective.h"
#include "distributed/PeerFile.h"

#include <memory>
#include <string>
#include <vector>

namespace c10::openreg::occl {

inline constexpr int kMostRanks = 64;

/// Where in its device's memory a rank has what it gives and takes in a call.
struct Place {
  uint64_t memory; ///< which of its devices
  uint64_t offset;
  uint64_t bytes;
};

/// What a rank says of its call to one other rank.
struct Offer {
  Header header;
  uint64_t longest; ///< bytes that it gives to anybody
  Place given;
  Place taken;
};

// docs:begin shared-board
/// One line per rank, which that rank alone writes to, and staging memory. A rank writes
/// its offers, arrives, and waits until the others have arrived: then it reads theirs.
/// What others write is copied before it is read, and trusted only after a check.
///
/// Ranks wait with few spins, some yields and then a futex, so that eight of them can
/// share two processors. While they wait they check whether the others are alive.
///
/// Threads: one per rank, except for fail().
// docs:end shared-board
class SharedBoard {
 public:
  /// Bytes of staging memory that each rank has for each other one, twice.
  static constexpr size_t kStaging = 64 * 1024;

  static size_t bytesFor(int size);

  /// `memory` has bytesFor(size) bytes, zeros at first, and outlives the board.
  SharedBoard(char* memory, int rank, int size, std::string group);

  /// Processes to watch while waiting, by rank; none for this one.
  void watch(std::vector<std::unique_ptr<PeerProcess>> peers) {
    peers_ = std::move(peers);
  }

  /// What this rank offers to another one at the next meeting. A slow rank may still
  /// read what was offered at the last one, so there are two of each.
  Offer& offerTo(int peer);
  /// A copy of what another rank has offered at the last one.
  Offer offerOf(int peer) const;
  /// How a rank can take part in a call.
  enum Way : uint32_t {
    Staged = 1, ///< all that it gives is in staging memory already
    Direct = 2 ///< others can reach all memory of its call
  };
  void setWays(uint32_t ways);
  uint32_t waysOf(int peer) const;

  /// Staging memory of a rank for another one; the turn decides which of two.
  char* staging(int owner, int reader, uint64_t turn) const;

  /// Arrives once more, and waits until all others have arrived as often. Throws
  /// Failure if one of them ends or fails, or at the deadline.
  void meet(Deadline deadline);
  uint64_t turns() const {
    return turn_;
  }

  /// Makes all ranks fail with a sentence, here and in the other processes.
  void fail(const std::string& why) noexcept;

 private:
  struct Line;

  Line& line(int rank) const;
  bool hasCome(int peer, uint32_t turn) const;
  void waitFor(int peer, uint32_t turn, Deadline deadline) const;
  void checkFailures() const;
  void checkLives(int waitedFor) const;

  char* const memory_;
  const int rank_;
  const int size_;
  const int spins_;
  const std::string group_;
  uint32_t turn_ = 0;
  std::vector<std::unique_ptr<PeerProcess>> peers_;
};

} // namespace c10::openreg::occl
