// The library's state in this process, and the door through which every API
// function enters.
#pragma once

#include "activity.h"
#include "capture.h"
#include "config.h"
#include "error.h"
#include "event.h"
#include "graph.h"
#include "graph_exec.h"
#include "handle.h"
#include "host_memory.h"
#include "ipc.h"
#include "memory.h"
#include "stream.h"
#include "transfer_threads.h"

#include <atomic>
#include <memory>
#include <new>
#include <vector>

namespace openreg {

class Adversary;
class Device;

/// Everything there is once per process. Never destroyed: workers, and static
/// destructors of the application, may use it until the process is gone.
///
/// Threads: any; each thing in it guards itself.
struct Runtime {
  explicit Runtime(Config settings);

  const Config config;
  std::vector<std::unique_ptr<Device>> devices;
  AddressSpace addresses;
  HostMemory hostMemory;
  TransferThreads transferThreads;
  ipc::Table shared;
  HandleTable<Stream, orStream_t, 1, 1 << 16> streams;
  HandleTable<Event, orEvent_t, 2, 1 << 20> events;
  HandleTable<Graph, orGraph_t, 3, 1 << 16> graphs;
  HandleTable<GraphExec, orGraphExec_t, 4, 1 << 16> graphExecs;
  Captures captures;
  std::atomic<Schedule> schedule; // see orScheduleSet()
  std::atomic<int> waitingThreads{0}; // see orGetWaitingThreads()
  const std::unique_ptr<Adversary> adversaryOnCall;

  /// The adversary if the schedule is its, else nullptr.
  Adversary* adversary() const {
    return schedule.load(std::memory_order_relaxed) == Schedule::Adversarial
        ? adversaryOnCall.get()
        : nullptr;
  }

  /// The calling thread's current device.
  Device& currentDevice();

  /// The device with that index, or nullptr with the thread's error set.
  Device* findDevice(int index);
};

namespace process {

enum class Phase : uint8_t { Fresh, Ready, Misconfigured, NoDevice, Forked };

extern std::atomic<Phase> phase;
extern std::atomic<Runtime*> instance;

/// Makes the library ready, or says why it cannot be.
orError_t enterSlowly();

/// To be called before the first thread or mapping is made: from then on a
/// forked child cannot use the library.
void markUsed();

/// Whether exit() has begun; then no task is started any more.
extern std::atomic<bool> exiting;

} // namespace process

/// The state; only for code that runs inside api() or later.
inline Runtime& runtime() {
  return *process::instance.load(std::memory_order_relaxed);
}

/// Counts the calling thread among those that wait for device work, while it lives.
class WaitingThread {
 public:
  WaitingThread() {
    runtime().waitingThreads.fetch_add(1, std::memory_order_relaxed);
  }
  ~WaitingThread() {
    runtime().waitingThreads.fetch_sub(1, std::memory_order_relaxed);
  }
  WaitingThread(const WaitingThread&) = delete;
  WaitingThread& operator=(const WaitingThread&) = delete;
};

/// Runs the body of an API function that leaves no activity record: one about
/// records. No exception leaves it.
template <class Body>
inline orError_t unrecordedApi(const char* name, Body body) noexcept {
  if (process::phase.load(std::memory_order_acquire) != process::Phase::Ready)
      [[unlikely]] {
    if (const orError_t status = process::enterSlowly(); status != orSuccess) {
      return status;
    }
  }
  try {
    return body(runtime());
  } catch (const std::bad_alloc&) {
    return fail(orErrorMemoryAllocation, "%s: the host is out of memory", name);
  }
}

/// The same for all others.
template <class Body>
inline orError_t api(const char* name, Body body) noexcept {
  return unrecordedApi(name, [&](Runtime& state) {
    const activity::ApiCall call(name);
    return body(state);
  });
}

/// An API function that waits for device work, and so is not for kernels and host
/// functions.
template <class Body>
inline orError_t blockingApi(const char* name, Body body) noexcept {
  return api(name, [&](Runtime& state) {
    const orError_t status = checkMayBlock();
    return status == orSuccess ? body(state) : status;
  });
}

/// An API function that is unsafe while a stream is capturing.
template <class Body>
inline orError_t unsafeApi(const char* name, Body body) noexcept {
  return api(name, [&](Runtime& state) {
    const orError_t status = state.captures.checkSafe(name);
    return status == orSuccess ? body(state) : status;
  });
}

/// One that waits for device work, too.
template <class Body>
inline orError_t unsafeBlockingApi(const char* name, Body body) noexcept {
  return blockingApi(name, [&](Runtime& state) {
    const orError_t status = state.captures.checkSafe(name);
    return status == orSuccess ? body(state) : status;
  });
}

} // namespace openreg
