// All that the library asks of the operating system and the processor. A port to
// another one is a port of os*.cpp and of pause() below.
//
// Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace openreg::os {

// --- memory ------------------------------------------------------------------

size_t pageSize();

/// Reserves address space without memory behind it. Returns nullptr on failure.
void* reserve(size_t bytes);

/// Memory that can be mapped at several addresses and takes up only the pages
/// that were touched. Returns a file descriptor, or -1.
int createSparseMemory(const char* name, size_t bytes);
void closeSparseMemory(int memory);

enum class Access { None, ReadWrite };

/// Maps `memory` from `offset` on into a reservation. The mapping is not inherited
/// by a forked child.
bool mapMemory(
    int memory,
    size_t offset,
    void* address,
    size_t bytes,
    Access access);

/// The same at an address of the system's choice. Returns nullptr on failure.
void* mapAnywhere(int memory, size_t offset, size_t bytes);
void unmap(void* address, size_t bytes);

bool setAccess(void* address, size_t bytes, Access access);

/// Gives pages of sparse memory back to the system; they read as zero again.
void returnPages(int memory, size_t offset, size_t bytes);

// --- waiting -----------------------------------------------------------------

/// Tells the processor that the thread is spinning.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#else
#error "openreg supports x86-64 and aarch64"
#endif
}

void yield();

/// Waits a few microseconds for a condition; returns whether it came true.
///
/// Spinning longer hurts everyone on a machine with few processors: with launcher
/// and worker on one of them, 100 pauses cost 6 ns a launch more than 25, and a
/// round trip 7.8 us instead of 4.1.
template <class Condition>
bool spinUntil(Condition condition) {
  for (int pauses = 0; pauses < 25; ++pauses) {
    if (condition()) {
      return true;
    }
    pause();
  }
  for (int yields = 0; yields < 20; ++yields) {
    if (condition()) {
      return true;
    }
    yield();
  }
  return condition();
}

/// Sleeps until woken, if `word` still holds `expected`; may return early.
/// `timeout` of 0 sleeps for as long as it takes.
void parkWhile(
    const std::atomic<uint32_t>& word,
    uint32_t expected,
    std::chrono::nanoseconds timeout = {});

/// Wakes every thread parked on `word`.
void unparkAll(const std::atomic<uint32_t>& word);

/// The same for a word in memory that processes share.
void parkWhileShared(
    const std::atomic<uint32_t>& word,
    uint32_t expected,
    std::chrono::nanoseconds timeout);
void unparkAllShared(const std::atomic<uint32_t>& word);

/// A pair of fences for "publish, then look whether someone sleeps" against
/// "announce sleep, then look whether something was published". The light side
/// runs once per launch and costs nothing; the heavy side interrupts the other
/// processors and is for threads that are about to sleep anyway.
void heavyFence();

extern std::atomic<bool> lightFenceMustBeReal;

inline void lightFence() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (lightFenceMustBeReal.load(std::memory_order_relaxed)) [[unlikely]] {
    heavyFence();
  }
}

// --- threads and processes ---------------------------------------------------

/// Starts a detached thread. Returns false if the system refuses.
bool startThread(const char* name, void (*entry)(void*), void* argument);

/// Sleeps for at least so long.
void sleepFor(std::chrono::nanoseconds duration);

/// For threads that must not go on while the process ends.
[[noreturn]] void sleepForever();

uint64_t threadId();

/// Number of processors this process may use.
unsigned processorCount();

/// Nanoseconds of the monotonic clock.
uint64_t now();

/// Has `handler` called in every child that is forked from now on.
void onFork(void (*handler)());

// --- other processes ---------------------------------------------------------

/// A process, told from a later one with the same number.
struct Process {
  int32_t number = 0;
  uint64_t started = 0; // in ticks since the system's start

  bool operator==(const Process&) const = default;
};

/// The calling process.
Process thisProcess();

/// Whether it has not ended; one that waits for its parent to notice has.
bool isAlive(const Process& process);

/// A file that a process has open, told from a later one at the same descriptor.
struct File {
  int32_t descriptor = -1;
  uint64_t device = 0;
  uint64_t inode = 0;

  bool operator==(const File&) const = default;
};

File identify(int descriptor);

/// Opens a file of another process for reading and writing. The system lets
/// processes of the same user do so. Returns a descriptor; -1 if the process or
/// the file is gone or closed to the caller.
int openFileOf(const Process& process, const File& file);

// --- memory faults -----------------------------------------------------------

/// Calls `body(context)`. If the thread faults meanwhile and
/// `survives(context, address)`, the call is abandoned where it stands and the
/// address is stored in `fault`; other faults go the way they would have gone.
/// Returns whether `body` returned.
bool runGuarded(
    void (*body)(void* context),
    bool (*survives)(void* context, uintptr_t address),
    void* context,
    uintptr_t* fault);

} // namespace openreg::os
