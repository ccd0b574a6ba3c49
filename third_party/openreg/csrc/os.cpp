#include "os.h"

#include <csetjmp>
#include <csignal>
#include <ctime>

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace openreg::os {

// --- memory ------------------------------------------------------------------

size_t pageSize() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

void* reserve(size_t bytes) {
  void* address = mmap(
      nullptr,
      bytes,
      PROT_NONE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
      -1,
      0);
  return address == MAP_FAILED ? nullptr : address;
}

int createSparseMemory(const char* name, size_t bytes) {
  const int memory = memfd_create(name, MFD_CLOEXEC);
  // Readable by its user alone, should another come upon it.
  if (memory >= 0 &&
      (fchmod(memory, S_IRUSR | S_IWUSR) != 0 ||
       ftruncate(memory, static_cast<off_t>(bytes)) != 0)) {
    close(memory);
    return -1;
  }
  return memory;
}

void closeSparseMemory(int memory) {
  close(memory);
}

namespace {

int protection(Access access) {
  return access == Access::None ? PROT_NONE : PROT_READ | PROT_WRITE;
}

} // namespace

bool mapMemory(
    int memory,
    size_t offset,
    void* address,
    size_t bytes,
    Access access) {
  constexpr int kFlags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
  return mmap(
             address,
             bytes,
             protection(access),
             kFlags,
             memory,
             static_cast<off_t>(offset)) == address &&
      madvise(address, bytes, MADV_DONTFORK) == 0 &&
      madvise(address, bytes, MADV_DONTDUMP) == 0;
}

void* mapAnywhere(int memory, size_t offset, size_t bytes) {
  void* const address = mmap(
      nullptr,
      bytes,
      PROT_READ | PROT_WRITE,
      MAP_SHARED | MAP_NORESERVE,
      memory,
      static_cast<off_t>(offset));
  if (address == MAP_FAILED) {
    return nullptr;
  }
  madvise(address, bytes, MADV_DONTFORK);
  return address;
}

void unmap(void* address, size_t bytes) {
  munmap(address, bytes);
}

bool setAccess(void* address, size_t bytes, Access access) {
  return mprotect(address, bytes, protection(access)) == 0;
}

void returnPages(int memory, size_t offset, size_t bytes) {
  // A failure would only keep the pages a while longer.
  (void)fallocate(
      memory,
      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
      static_cast<off_t>(offset),
      static_cast<off_t>(bytes));
}

// --- waiting -----------------------------------------------------------------

void yield() {
  sched_yield();
}

namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void futex(
    const std::atomic<uint32_t>& word,
    int operation,
    uint32_t value,
    const timespec* timeout) {
  syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

void wait(
    const std::atomic<uint32_t>& word,
    int operation,
    uint32_t expected,
    std::chrono::nanoseconds timeout) {
  constexpr long kBillion = 1'000'000'000;
  const timespec limit{
      static_cast<time_t>(timeout.count() / kBillion),
      static_cast<long>(timeout.count() % kBillion)};
  futex(word, operation, expected, timeout.count() > 0 ? &limit : nullptr);
}

} // namespace

void parkWhile(
    const std::atomic<uint32_t>& word,
    uint32_t expected,
    std::chrono::nanoseconds timeout) {
  wait(word, FUTEX_WAIT_PRIVATE, expected, timeout);
}

void unparkAll(const std::atomic<uint32_t>& word) {
  futex(word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr);
}

void parkWhileShared(
    const std::atomic<uint32_t>& word,
    uint32_t expected,
    std::chrono::nanoseconds timeout) {
  wait(word, FUTEX_WAIT, expected, timeout);
}

void unparkAllShared(const std::atomic<uint32_t>& word) {
  futex(word, FUTEX_WAKE, INT32_MAX, nullptr);
}

namespace {

bool registerProcessFence() {
  return syscall(
             SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) ==
      0;
}

} // namespace

// Kernels before 4.14 and some sandboxes have no process-wide fence; then both
// sides pay for an ordinary one.
std::atomic<bool> lightFenceMustBeReal{!registerProcessFence()};

void heavyFence() {
  if (lightFenceMustBeReal.load(std::memory_order_relaxed)) {
    static std::atomic<uint32_t> word;
    word.fetch_add(1, std::memory_order_seq_cst);
    return;
  }
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

// --- threads and processes ---------------------------------------------------

namespace {

struct ThreadStart {
  char name[16];
  void (*entry)(void*);
  void* argument;
};

void* runThread(void* raw) {
  const ThreadStart start = *static_cast<ThreadStart*>(raw);
  delete static_cast<ThreadStart*>(raw);
  pthread_setname_np(pthread_self(), start.name);
  start.entry(start.argument);
  return nullptr;
}

} // namespace

bool startThread(const char* name, void (*entry)(void*), void* argument) {
  auto* start = new ThreadStart{{}, entry, argument};
  for (size_t i = 0; i + 1 < sizeof(start->name) && name[i]; ++i) {
    start->name[i] = name[i];
  }
  // Signals are for the application's own threads; faults are delivered here
  // nevertheless.
  sigset_t all, before;
  sigfillset(&all);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    sigdelset(&all, fault);
  }
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, runThread, start) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) {
    delete start;
    return false;
  }
  pthread_detach(thread);
  return true;
}

void sleepFor(std::chrono::nanoseconds duration) {
  constexpr int64_t kSecond = 1'000'000'000;
  timespec left{duration.count() / kSecond, duration.count() % kSecond};
  while (::nanosleep(&left, &left) != 0) { // a signal came
  }
}

void sleepForever() {
  for (;;) {
    ::pause();
  }
}

uint64_t threadId() {
  thread_local const auto id = static_cast<uint64_t>(syscall(SYS_gettid));
  return id;
}

unsigned processorCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return 1;
  }
  return static_cast<unsigned>(CPU_COUNT(&set));
}

uint64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u +
      static_cast<uint64_t>(time.tv_nsec);
}

void onFork(void (*handler)()) {
  pthread_atfork(nullptr, nullptr, handler);
}

// --- memory faults -----------------------------------------------------------

namespace {

constexpr int kFaultSignals[] = {SIGSEGV, SIGBUS};

struct Guard {
  bool (*survives)(void*, uintptr_t);
  void* context;
  uintptr_t address;
  sigjmp_buf resume;
};

// Looked at with every launch: without the attribute, that takes a call.
thread_local Guard* activeGuard __attribute__((tls_model("initial-exec"))) =
    nullptr;
struct sigaction previousActions[NSIG];

void handleFault(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (Guard* guard = activeGuard;
      guard && guard->survives(guard->context, address)) {
    guard->address = address;
    siglongjmp(guard->resume, 1);
  }
  const struct sigaction& previous = previousActions[signal];
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    // Returning runs the faulting instruction again, now unhandled.
    ::signal(signal, SIG_DFL);
  }
}

// A handler that leaves by a jump leaves its signal blocked.
void unblockFaults() {
  sigset_t faults;
  sigemptyset(&faults);
  for (int signal : kFaultSignals) {
    sigaddset(&faults, signal);
  }
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

bool installFaultHandler() {
  struct sigaction action {};
  action.sa_sigaction = handleFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (int signal : kFaultSignals) {
    sigaction(signal, &action, &previousActions[signal]);
  }
  return true;
}

} // namespace

bool runGuarded(
    void (*body)(void*),
    bool (*survives)(void*, uintptr_t),
    void* context,
    uintptr_t* fault) {
  [[maybe_unused]] static const bool installed = installFaultHandler();

  Guard guard;
  guard.survives = survives;
  guard.context = context;
  Guard* const outer = activeGuard;
  if (sigsetjmp(guard.resume, 0) != 0) {
    activeGuard = outer;
    unblockFaults();
    *fault = guard.address;
    return false;
  }
  activeGuard = &guard;
  body(context);
  activeGuard = outer;
  return true;
}

} // namespace openreg::os
