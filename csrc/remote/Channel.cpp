#include "remote/Channel.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <ctime>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sched.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace c10::openreg::remote {
namespace {

constexpr size_t kChannelBytes = size_t{1} << 30;
constexpr size_t kMessageOffset = 64; // a cache line for the words
constexpr size_t kKeptBytes = size_t{1} << 20;

// Turns: a Side, or this; the bit says that someone sleeps.
constexpr uint32_t kClosed = 2;
constexpr uint32_t kAsleep = 4;

// docs:begin channel-wait
// A thread that sleeps on an idle processor is woken late: some 30 us on a virtual
// machine. A thread that spins takes the processor from the thread that should answer,
// if both are on the same one. So each side tells where it runs, and a thread whose
// answer comes from another processor spins for a while.
constexpr int kPauses = 1000;
constexpr long kPatience = 100'000'000; // nanoseconds between two looks around
// docs:end channel-wait

// Returns false if the time is up.
bool futex(
    std::atomic<uint32_t>& word,
    int operation,
    uint32_t value,
    const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0) >=
      0 ||
      errno != ETIMEDOUT;
}

void pauseProcessor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("isb");
#endif
}

} // namespace

struct Channel::Page {
  std::atomic<uint32_t> turn;
  std::atomic<uint64_t> bytes; // of the message
  std::atomic<int32_t> processor[2]; // where each side ran last
};

Channel::Channel()
    : memory_(makeSharedMemory("openreg channel", kChannelBytes)),
      mapping_(memory_, kChannelBytes) {
  static_assert(sizeof(Page) <= kMessageOffset);
  static_assert(static_cast<uint32_t>(Side::Driver) == 0); // as the page is new
}

Channel::Channel(const Descriptor& memory) : mapping_(memory, kChannelBytes) {}

Channel::Page& Channel::page() const {
  return *reinterpret_cast<Page*>(mapping_.data());
}

std::span<char> Channel::room() {
  return {mapping_.data() + kMessageOffset, kChannelBytes - kMessageOffset};
}

std::span<const char> Channel::message() const {
  // The other process may have written anything there.
  const uint64_t bytes = std::min<uint64_t>(
      page().bytes.load(std::memory_order_relaxed),
      kChannelBytes - kMessageOffset);
  return {mapping_.data() + kMessageOffset, bytes};
}

void Channel::pass(Side side, size_t bytes) {
  const uint64_t before = page().bytes.load(std::memory_order_relaxed);
  if (before > kKeptBytes && bytes <= kKeptBytes) {
    madvise(
        mapping_.data() + kKeptBytes * 2,
        kChannelBytes - kKeptBytes * 2,
        MADV_REMOVE);
  }
  page().bytes.store(bytes, std::memory_order_relaxed);
  page().processor[1 - static_cast<uint32_t>(side)].store(sched_getcpu());
  uint32_t word = page().turn.load(std::memory_order_relaxed);
  while ((word & ~kAsleep) != kClosed &&
         !page().turn.compare_exchange_weak(
             word, static_cast<uint32_t>(side), std::memory_order_acq_rel)) {
  }
  if ((word & kAsleep) != 0) {
    futex(page().turn, FUTEX_WAKE, INT_MAX, nullptr);
  }
}

bool Channel::await(Side side, const std::function<bool()>& lost) {
  auto& turn = page().turn;
  const auto mine = static_cast<uint32_t>(side);
  const bool isElsewhere = page().processor[1 - mine].load() != sched_getcpu();
  for (int spins = isElsewhere ? 0 : kPauses;; ++spins) {
    uint32_t word = turn.load(std::memory_order_acquire);
    if ((word & ~kAsleep) == mine) {
      return true;
    }
    if ((word & ~kAsleep) == kClosed) {
      return false;
    }
    if (spins < kPauses) {
      pauseProcessor();
    } else if (
        (word & kAsleep) != 0 ||
        turn.compare_exchange_strong(word, word | kAsleep)) {
      const timespec limit{0, kPatience};
      const bool woken =
          futex(turn, FUTEX_WAIT, word | kAsleep, lost ? &limit : nullptr);
      if (!woken && lost && lost()) {
        return false;
      }
    }
  }
}

void Channel::close() {
  page().turn.store(kClosed);
  futex(page().turn, FUTEX_WAKE, INT_MAX, nullptr);
}

} // namespace c10::openreg::remote
