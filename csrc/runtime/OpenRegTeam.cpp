#include "runtime/OpenRegTeam.h"

#include "runtime/OpenRegSingleThread.h"

#include <openreg.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

// Of the OpenMP library that PyTorch brings along.
extern "C" [[gnu::weak]] int omp_pause_resource_all(int kind);
extern "C" [[gnu::weak]] int omp_get_thread_num();
extern "C" [[gnu::weak]] int omp_get_num_threads();
extern "C" [[gnu::weak]] void GOMP_parallel(
    void (*body)(void*),
    void* data,
    unsigned threads,
    unsigned flags);
extern "C" [[gnu::weak]] void GOMP_parallel_start(
    void (*body)(void*),
    void* data,
    unsigned threads);
extern "C" [[gnu::weak]] void GOMP_parallel_end();
extern "C" [[gnu::weak]] int omp_get_level();

namespace c10::openreg {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// The threads of a team do not survive a fork, and to end the team would wait for them
// for ever. The team may be older than this library: so the system is asked.
bool wasForked() {
  constexpr unsigned long kForkedWithoutExec = 0x40; // of Linux, PF_FORKNOEXEC
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // Behind the name, which may have spaces: state, five numbers, flags.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 6; ++i) {
    fields >> skipped;
  }
  unsigned long flags = kForkedWithoutExec;
  return !(fields >> flags) || (flags & kForkedWithoutExec) != 0;
}

std::atomic<bool> forkedSince{false};

bool ownsItsThreads() {
  static const bool atFirst = [] {
    pthread_atfork(nullptr, nullptr, [] { forkedSince.store(true); });
    return !wasForked();
  }();
  return atFirst && !forkedSince.load(std::memory_order_relaxed);
}

/// Where the threads of a team are, and where they should be.
class Muster {
 public:
  static constexpr int kMost = 128;

  explicit Muster(const cpu_set_t& allowed) : allowed_(allowed) {}

  /// What each of `members` threads runs.
  void join(int member, int members) {
    places_[member] = sched_getcpu();
    arrived_.fetch_add(1, std::memory_order_acq_rel);
    // The one that is missing may wait for this processor.
    while (arrived_.load(std::memory_order_acquire) < members) {
      sched_yield();
    }
    const int place = processorFor(
        member, {places_.data(), static_cast<size_t>(members)}, allowed_);
    if (place != places_[member]) {
      moveTo(place);
    }
  }

 private:
  static void moveTo(int place) {
    cpu_set_t own, there;
    CPU_ZERO(&there);
    CPU_SET(place, &there);
    if (sched_getaffinity(0, sizeof(own), &own) == 0 &&
        CPU_ISSET(place, &own) &&
        sched_setaffinity(0, sizeof(there), &there) == 0) {
      sched_setaffinity(0, sizeof(own), &own);
    }
  }

  const cpu_set_t& allowed_;
  std::array<int, kMost> places_{};
  std::atomic<int> arrived_{0};
};

} // namespace

void giveTeamBack() {
  constexpr int kSoft = 1; // settings stay
  constexpr auto kLongForNothing = 20us;
  constexpr auto kPause = 250ms;
  thread_local Clock::time_point next;
  if (!omp_pause_resource_all || !ownsItsThreads()) {
    return;
  }
  const auto begin = Clock::now();
  if (begin < next) {
    return;
  }
  omp_pause_resource_all(kSoft);
  const auto end = Clock::now();
  if (end - begin > kLongForNothing) { // there was a team
    next = end + kPause;
  }
}

int processorFor(
    int member,
    std::span<const int> places,
    const cpu_set_t& allowed) {
  cpu_set_t taken, seen;
  CPU_ZERO(&taken);
  CPU_ZERO(&seen);
  for (const int place : places) {
    CPU_SET(place, &taken);
  }
  int place = -1;
  int free = -1;
  for (int i = 0; i <= member; ++i) {
    place = places[i];
    if (CPU_ISSET(place, &seen)) {
      do {
        ++free;
      } while (free < CPU_SETSIZE &&
               (CPU_ISSET(free, &taken) || !CPU_ISSET(free, &allowed)));
      place = free < CPU_SETSIZE ? free : place;
    }
    CPU_SET(place, &seen);
  }
  return place;
}

namespace {

/// The team of one thread between two kernels.
class TeamRest {
 public:
  ~TeamRest() {
    end();
  }

  bool begun() const {
    return level_ != 0;
  }

  void begin(int threads) {
    asleep_.store(true, std::memory_order_relaxed);
    GOMP_parallel_start(
        [](void* self) { static_cast<TeamRest*>(self)->sleep(); },
        this,
        static_cast<unsigned>(threads));
    level_ = omp_get_level();
    // Code that asks OpenMP for its part of the work gets all of it in here.
    GOMP_parallel_start([](void*) {}, nullptr, 1);
    single_.emplace();
  }

  void end() {
    if (!begun()) {
      return;
    }
    single_.reset();
    asleep_.store(false, std::memory_order_release);
    asleep_.notify_all();
    // Both, and those of a kernel that was abandoned half way.
    while (omp_get_level() >= level_) {
      GOMP_parallel_end();
    }
    level_ = 0;
  }

 private:
  /// To be woken takes longer than to look, so the first moments are spent looking if
  /// nobody needs the processor.
  void sleep() const {
    constexpr auto kNap = 200us;
    const auto until = Clock::now() + kNap;
    int waiting = 0;
    do {
      if (!asleep_.load(std::memory_order_acquire)) {
        return;
      }
      sched_yield();
      orGetWaitingThreads(&waiting);
    } while (waiting > 0 && Clock::now() < until);
    asleep_.wait(true, std::memory_order_acquire);
  }

  std::atomic<bool> asleep_{false};
  int level_ = 0; // of the region that was begun first; 0: none was
  std::optional<SingleThread> single_;
};

thread_local TeamRest rest;

} // namespace

void restTeam(int threads) {
  if (GOMP_parallel_start && GOMP_parallel_end && omp_get_level &&
      threads > 1 && !rest.begun()) {
    rest.begin(threads);
  }
}

void wakeTeam() {
  rest.end();
}

void spreadTeam(int threads) {
  constexpr auto kHolds = 1ms;
  thread_local Clock::time_point next;
  if (!GOMP_parallel || threads > Muster::kMost) {
    return;
  }
  const auto now = Clock::now();
  if (now < next) {
    return;
  }
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 ||
      threads > CPU_COUNT(&allowed)) {
    next = now + 100 * kHolds;
    return;
  }
  Muster muster(allowed);
  GOMP_parallel(
      [](void* shared) {
        static_cast<Muster*>(shared)->join(
            omp_get_thread_num(), omp_get_num_threads());
      },
      &muster,
      static_cast<unsigned>(threads),
      0);
  next = Clock::now() + kHolds;
}

} // namespace c10::openreg
