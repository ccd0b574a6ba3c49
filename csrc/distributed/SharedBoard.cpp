#include "distributed/SharedBoard.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <new>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace c10::openreg::occl {

struct SharedBoard::Line {
  alignas(64) std::atomic<uint32_t> arrived; // how often
  std::atomic<uint32_t> sleepers; // ranks that wait for it
  std::atomic<uint32_t> failed;
  std::atomic<uint32_t> ways[2]; // for turns of either parity
  char failure[512];
  alignas(64) Offer offers[2][kMostRanks];
};

namespace {

constexpr int kYields = 20;
constexpr std::chrono::milliseconds kSlice{100}; // between looks at the others

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield" ::: "memory");
#endif
}

void sleepOn(const std::atomic<uint32_t>& word, uint32_t value) {
  const auto nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(kSlice).count();
  const timespec time{0, static_cast<long>(nanoseconds)};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void wakeAll(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// To spin is only worth it while every rank has a processor.
int spinsFor(int ranks) {
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof(processors), &processors) != 0) {
    return 0;
  }
  return CPU_COUNT(&processors) >= 2 * ranks ? 1000
      : CPU_COUNT(&processors) >= ranks      ? 200
                                             : 0;
}

size_t roundUp(size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

} // namespace

size_t SharedBoard::bytesFor(int size) {
  const auto ranks = static_cast<size_t>(size);
  return ranks * (roundUp(sizeof(Line)) + 2 * ranks * kStaging);
}

SharedBoard::SharedBoard(char* memory, int rank, int size, std::string group)
    : memory_(memory),
      rank_(rank),
      size_(size),
      spins_(spinsFor(size)),
      group_(std::move(group)) {
  if (size > kMostRanks) {
    throw std::invalid_argument(
        "at most " + std::to_string(kMostRanks) +
        " ranks can share memory, but there are " + std::to_string(size));
  }
}

SharedBoard::Line& SharedBoard::line(int rank) const {
  return *std::launder(reinterpret_cast<Line*>(
      memory_ + static_cast<size_t>(rank) * roundUp(sizeof(Line))));
}

Offer& SharedBoard::offerTo(int peer) {
  return line(rank_).offers[(turn_ + 1) % 2][peer];
}

Offer SharedBoard::offerOf(int peer) const {
  Offer copy;
  std::memcpy(&copy, &line(peer).offers[turn_ % 2][rank_], sizeof(copy));
  return copy;
}

void SharedBoard::setWays(uint32_t ways) {
  line(rank_).ways[(turn_ + 1) % 2].store(ways, std::memory_order_relaxed);
}

uint32_t SharedBoard::waysOf(int peer) const {
  return line(peer).ways[turn_ % 2].load(std::memory_order_relaxed);
}

char* SharedBoard::staging(int owner, int reader, uint64_t turn) const {
  const auto ranks = static_cast<size_t>(size_);
  const size_t place =
      (static_cast<size_t>(owner) * ranks + static_cast<size_t>(reader)) * 2 +
      turn % 2;
  return memory_ + ranks * roundUp(sizeof(Line)) + place * kStaging;
}

// --- meetings -------------------------------------------------------------------

// Turns wrap around; nobody is more than one ahead.
bool SharedBoard::hasCome(int peer, uint32_t turn) const {
  const uint32_t arrived = line(peer).arrived.load(std::memory_order_acquire);
  return static_cast<int32_t>(arrived - turn) >= 0;
}

void SharedBoard::meet(Deadline deadline) {
  Line& own = line(rank_);
  own.arrived.store(++turn_, std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) != 0) {
    wakeAll(own.arrived);
  }
  for (int step = 1; step < size_; ++step) {
    waitFor((rank_ + step) % size_, turn_, deadline);
  }
}

void SharedBoard::waitFor(int peer, uint32_t turn, Deadline deadline) const {
  for (int i = 0; i < spins_; ++i) {
    if (hasCome(peer, turn)) {
      return;
    }
    pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (hasCome(peer, turn)) {
      return;
    }
    sched_yield();
  }
  Line& theirs = line(peer);
  while (!hasCome(peer, turn)) {
    checkFailures();
    checkLives(peer);
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Failure(
          "rank " + std::to_string(rank_) + " waited in vain for rank " +
          std::to_string(peer) + " of group '" + group_ +
          "', until the timeout was over");
    }
    theirs.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = theirs.arrived.load(std::memory_order_seq_cst);
    if (static_cast<int32_t>(seen - turn) < 0) {
      sleepOn(theirs.arrived, seen);
    }
    theirs.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
}

// --- failures -------------------------------------------------------------------

void SharedBoard::checkFailures() const {
  for (int peer = 0; peer < size_; ++peer) {
    if (line(peer).failed.load(std::memory_order_acquire) == 0) {
      continue;
    }
    char text[sizeof(Line::failure)];
    std::memcpy(text, line(peer).failure, sizeof(text));
    text[sizeof(text) - 1] = 0;
    throw Failure(text);
  }
}

// A rank that arrived and then ended has done its part; what matters is the rank we
// wait for. But that one may itself be waiting for a rank that is gone.
void SharedBoard::checkLives(int waitedFor) const {
  for (int step = 0; step < size_; ++step) {
    const int peer = (waitedFor + step) % size_;
    const auto index = static_cast<size_t>(peer);
    if (index < peers_.size() && peers_[index] && peers_[index]->ended() &&
        !hasCome(peer, turn_)) {
      checkFailures(); // it may have said why
      throw Failure(
          "rank " + std::to_string(peer) + " of group '" + group_ +
          "' has ended, and rank " + std::to_string(rank_) + " waits for it");
    }
  }
}

void SharedBoard::fail(const std::string& why) noexcept {
  Line& own = line(rank_);
  if (own.failed.load(std::memory_order_relaxed) != 0) {
    return;
  }
  std::strncpy(own.failure, why.c_str(), sizeof(own.failure) - 1);
  own.failed.store(1, std::memory_order_release);
  for (int peer = 0; peer < size_; ++peer) {
    wakeAll(line(peer).arrived);
  }
}

} // namespace c10::openreg::occl
