#include "running_task.h"

#include "device.h"
#include "graph.h"
#include "os.h"
#include "runtime.h"

#include <cstdio>
#include <exception>
#include <utility>

namespace openreg {

constinit thread_local RunningTask* runningTask = nullptr;

namespace {

orActivityKind activityKind(TaskKind kind) {
  switch (kind) {
    case TaskKind::Kernel:
      return orActivityKernel;
    case TaskKind::Copy:
      return orActivityMemcpy;
    case TaskKind::Set:
      return orActivityMemset;
    case TaskKind::HostFunc:
      return orActivityHostFunc;
    case TaskKind::Wait:
      return orActivitySync;
    case TaskKind::Timestamp:
    case TaskKind::Graph: // its nodes are
      break;
  }
  return {}; // not recorded
}

void failTask(RunningTask& task, orError_t error, std::string message) {
  task.failure.reset(new RunningTask::Failure{error, std::move(message)});
}

// As a GPU's kernel does: a program that dies of it, or never synchronizes, has told.
void printAssertion(const RunningTask& task) {
  const std::string& message = task.failure->message;
  std::fprintf(
      stderr,
      "openreg: '%s' in stream %d of device %d: Assertion failed: %.*s\n",
      task.info->name,
      static_cast<int>(task.stream.id()),
      static_cast<int>(task.stream.device().index()),
      static_cast<int>(message.substr(0, message.find('\n')).size()),
      message.c_str());
}

void breakDevice(const RunningTask& task) {
  if (task.failure->error == orErrorAssert) {
    printAssertion(task);
  }
  Device& device = task.device();
  device.breakWith(
      task.failure->error,
      std::string("'") + task.info->name + "' failed in stream " +
          std::to_string(task.stream.id()) + " of device " +
          std::to_string(task.stream.device().index()) + ": " +
          task.failure->message);
}

void endTrace(const RunningTask& task) {
  const GraphNode* const node = task.node;
  activity::record({
      .kind = activityKind(task.info->kind),
      .name = task.info->name,
      .device = task.device().index(),
      .stream = task.stream.id(),
      .start = task.start,
      .end = os::now(),
      .correlation = task.trace->correlation,
      .externalCorrelation = task.trace->externalCorrelation,
      .bytes = node ? node->bytes : task.trace->bytes,
      .copyKind = task.info->copyKind,
      .graph = node ? node->graph : 0,
      .graphNode = node ? node->id : 0,
  });
}

} // namespace

Device& RunningTask::device() const {
  return node ? *node->device : stream.device();
}

void beginTrace(RunningTask& task, const TaskTrace& trace) {
  task.trace = &trace;
  if (trace.correlation != 0 &&
      activity::enabled(activityKind(task.info->kind))) {
    task.start = os::now();
  }
}

void call(const orCallableType& type, void* callable, RunningTask& task) {
  try {
    type.run(callable);
  } catch (const std::exception& error) {
    failTask(task, orErrorLaunchFailure, error.what());
  } catch (...) {
    failTask(
        task,
        orErrorLaunchFailure,
        "it threw something that is not a std::exception");
  }
}

void noteFault(RunningTask& task, uintptr_t address) {
  char text[64];
  std::snprintf(text, sizeof(text), "it touched address %#zx", size_t{address});
  failTask(task, orErrorIllegalAddress, text);
}

// Copies and sets are the library's own code and survive any bad address.
// Callables may fault for reasons of their own, which are none of ours unless
// they touch device memory.
bool survivesFault(const RunningTask& task, uintptr_t address) {
  if (!task.info) {
    return false;
  }
  const TaskKind kind = task.info->kind;
  return kind == TaskKind::Copy || kind == TaskKind::Set ||
      runtime().addresses.overlaps(reinterpret_cast<void*>(address), 1);
}

bool outlivesFailure(TaskKind kind) {
  return kind == TaskKind::Wait || kind == TaskKind::Timestamp;
}

void settleSlowly(RunningTask& task) {
  if (task.failure) {
    breakDevice(task);
    task.failure.reset();
  }
  if (task.start != 0) {
    endTrace(task);
    task.start = 0;
  }
}

Stream* runningStream() {
  return runningTask ? &runningTask->stream : nullptr;
}

Device* runningDevice() {
  return runningTask ? &runningTask->device() : nullptr;
}

bool failRunningTask(orError_t error, std::string message) {
  if (!runningTask || !runningTask->info) {
    return false;
  }
  if (!runningTask->failure) {
    failTask(*runningTask, error, std::move(message));
  }
  return true;
}

void failRunningTaskAt(uintptr_t address) {
  noteFault(*runningTask, address);
}

} // namespace openreg
