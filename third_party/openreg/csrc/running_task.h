// The task that a thread is running: what messages, records and the handling of
// failures know of it. What goes wrong in a task becomes the device's error.
//
// Threads: each has its own, and nobody else looks at it.
#pragma once

#include "ring.h"
#include "stream.h"

#include <memory>
#include <string>

namespace openreg {

class Device;
struct GraphNode;

struct RunningTask {
  struct Failure {
    orError_t error;
    std::string message;
  };

  Stream& stream;
  const TaskInfo* info = nullptr; // nullptr: between two tasks
  const TaskTrace* trace = nullptr; // nullptr: it leaves no records
  uint64_t start = 0; // 0: it is not recorded
  const GraphNode* node = nullptr; // nullptr: it is not a graph's
  std::unique_ptr<Failure> failure; // nullptr: it has not failed

  /// Which breaks if the task fails.
  Device& device() const;
};

/// That of the calling thread, or nullptr. Looked at with every launch: without the
/// attribute, that takes a call.
extern constinit thread_local RunningTask* runningTask
    __attribute__((tls_model("initial-exec")));

/// Starts the record of the task, if its kind is recorded.
void beginTrace(RunningTask& task, const TaskTrace& trace);

/// Calls the callable. What it throws becomes the task's failure.
void call(const orCallableType& type, void* callable, RunningTask& task);

/// The task touched an address that it may not.
void noteFault(RunningTask& task, uintptr_t address);

/// Whether a fault at `address` is the task's, and not the program's.
bool survivesFault(const RunningTask& task, uintptr_t address);

/// Whether a broken device still does it: events must come to pass.
bool outlivesFailure(TaskKind kind);

/// The end of a task: breaks the device if it failed, and completes its record.
void settleSlowly(RunningTask& task);
inline void settle(RunningTask& task) {
  if (task.failure || task.start != 0) [[unlikely]] {
    settleSlowly(task);
  }
}

} // namespace openreg
