#include "graph_exec.h"

#include "device.h"
#include "runtime.h"
#include "submit.h"

#include <algorithm>
#include <utility>

namespace openreg {

void GraphExec::open(std::shared_ptr<const Program> program) {
  std::lock_guard lock(mutex_);
  program_ = std::move(program);
}

std::shared_ptr<const Program> GraphExec::close() {
  return exchange(nullptr);
}

std::shared_ptr<const Program> GraphExec::program() {
  std::lock_guard lock(mutex_);
  return program_;
}

std::shared_ptr<const Program> GraphExec::exchange(
    std::shared_ptr<const Program> program) {
  std::lock_guard lock(mutex_);
  return std::exchange(program_, std::move(program));
}

// What was recorded when the launch is made is waited for before any node runs.
orError_t GraphExec::queueWaits(const Program& program, Stream& stream) {
  for (const orEvent_t event : program.waits()) {
    const Event* awaited = runtime().events.find(event);
    if (!awaited) {
      return failOnEvent(event);
    }
    const Event::Record record = awaited->latest();
    const orError_t status = record.captured
        ? runtime().captures.checkEvent(record.captured.get(), "a graph")
        : submitWait(stream, record);
    if (status != orSuccess) {
      return status;
    }
  }
  return lastStream_ && lastStream_ != &stream
      ? submitWait(stream, *lastStream_, lastFinished_)
      : orSuccess;
}

orError_t GraphExec::launch(Stream& stream) {
  std::unique_lock lock(launchMutex_, std::defer_lock);
  // A task cannot wait for a launch that may be waiting for the task.
  if (!runningStream()) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return fail(
        orErrorNotPermitted,
        "a kernel or host function cannot launch a graph that is being "
        "launched");
  }
  auto current = program();
  if (!current) {
    return fail(orErrorInvalidHandle, "the graph was destroyed meanwhile");
  }
  if (stream.capturing()) {
    auto node = std::make_shared<GraphNode>(orGraphNodeTypeGraph);
    node->child = current->nodes();
    return runtime().captures.add(stream, std::move(node));
  }
  for (Device* device : current->devices()) {
    if (const orError_t status = device->check(); status != orSuccess) {
      return status;
    }
  }
  std::vector<std::pair<Event*, Event::Record>> recorded;
  for (const orEvent_t event : current->records()) {
    Event* found = runtime().events.find(event);
    if (!found) {
      return failOnEvent(event);
    }
    recorded.emplace_back(found, Event::Record{});
  }
  orError_t status = queueWaits(*current, stream);
  if (status != orSuccess) {
    return status;
  }
  std::shared_ptr<LaunchRecords> records;
  if (!recorded.empty()) {
    std::vector<Event::Record> prepared;
    for (auto& [event, record] : recorded) {
      record = event->prepare(stream);
      prepared.push_back(record);
    }
    records = std::make_shared<LaunchRecords>(std::move(prepared));
  }
  uint64_t finished = 0;
  status = submitCallable(
      stream,
      {.info = {"graph", TaskKind::Graph},
       .where = current->small() ? Where::Idle : Where::Queue},
      [current, records] { current->run(records.get()); },
      &finished);
  if (finished != 0) {
    lastStream_ = &stream;
    lastFinished_ = finished;
    for (auto& [event, record] : recorded) {
      record.finished = finished;
      event->publish(record);
    }
  }
  return status;
}

orError_t failOnGraphExec(orGraphExec_t handle) {
  return handle ? fail(
                      orErrorInvalidHandle,
                      "%p is not a live executable graph; was it destroyed?",
                      static_cast<void*>(handle))
                : fail(orErrorInvalidHandle, "exec must not be NULL");
}

} // namespace openreg

using namespace openreg;

namespace {

/// Calls `body(exec)` with the executable graph that a handle names.
template <class Body>
orError_t execApi(const char* name, orGraphExec_t handle, Body body) {
  return api(name, [&](Runtime& runtime) {
    GraphExec* exec = runtime.graphExecs.find(handle);
    return exec ? body(*exec) : failOnGraphExec(handle);
  });
}

/// What makes `nodes` differ from `old`, nodes of children included.
orGraphExecUpdateResult compare(
    const GraphNodes& old,
    const GraphNodes& nodes,
    size_t* index) {
  const size_t shorter = std::min(old.entries.size(), nodes.entries.size());
  for (*index = 0; *index < shorter; ++*index) {
    const GraphNodes::Entry& before = old.entries[*index];
    const GraphNodes::Entry& after = nodes.entries[*index];
    if (before.node->type != after.node->type) {
      return orGraphExecUpdateErrorNodeTypeChanged;
    }
    if (before.dependencies != after.dependencies) {
      return orGraphExecUpdateErrorTopologyChanged;
    }
    size_t inside = 0;
    if (before.node->child) {
      const orGraphExecUpdateResult result =
          compare(*before.node->child, *after.node->child, &inside);
      if (result != orGraphExecUpdateSuccess) {
        return result;
      }
    }
  }
  return old.entries.size() == nodes.entries.size()
      ? orGraphExecUpdateSuccess
      : orGraphExecUpdateErrorTopologyChanged;
}

} // namespace

orError_t orGraphInstantiate(
    orGraphExec_t* exec,
    orGraph_t graph,
    unsigned long long flags) {
  return api("orGraphInstantiate", [&](Runtime& runtime) {
    Graph* found = runtime.graphs.find(graph);
    if (!found) {
      return failOnGraph(graph);
    }
    if (!exec) {
      return fail(orErrorInvalidValue, "exec must not be NULL");
    }
    if (flags != 0) {
      return fail(orErrorInvalidValue, "flags must be 0, but is %llu", flags);
    }
    auto program = std::make_shared<const Program>(
        found->withNodes([](const GraphNodes& nodes) { return nodes; }));
    *exec = runtime.graphExecs.create(
        [&](GraphExec& opened) { opened.open(std::move(program)); });
    return *exec ? orSuccess
                 : fail(
                       orErrorMemoryAllocation,
                       "too many executable graphs are alive; destroy some "
                       "with orGraphExecDestroy()");
  });
}

orError_t orGraphExecUpdate(
    orGraphExec_t exec,
    orGraph_t graph,
    orGraphExecUpdateResultInfo* info) {
  return execApi("orGraphExecUpdate", exec, [&](GraphExec& found) {
    Graph* source = runtime().graphs.find(graph);
    if (!source) {
      return failOnGraph(graph);
    }
    const auto old = found.program();
    if (!old) {
      return failOnGraphExec(exec);
    }
    GraphNodes nodes =
        source->withNodes([](const GraphNodes& current) { return current; });
    size_t index = 0;
    const orGraphExecUpdateResult result =
        compare(*old->nodes(), nodes, &index);
    const bool hasNode =
        result != orGraphExecUpdateSuccess && index < nodes.entries.size();
    if (info) {
      *info = {result, hasNode ? nodeHandle(nodes.id, index) : nullptr};
    }
    if (result != orGraphExecUpdateSuccess) {
      return fail(
          orErrorGraphExecUpdateFailure,
          result == orGraphExecUpdateErrorNodeTypeChanged
              ? "node %zu is of another type; the graphs have %zu and %zu nodes"
              : "the edges or the number of nodes differ from node %zu on; the "
                "graphs have %zu and %zu nodes",
          index,
          old->nodes()->entries.size(),
          nodes.entries.size());
    }
    found.exchange(std::make_shared<const Program>(std::move(nodes)));
    return orSuccess;
  });
}

orError_t orGraphUpload(orGraphExec_t exec, orStream_t stream) {
  return execApi("orGraphUpload", exec, [&](GraphExec&) {
    Stream* found = runtime().streams.find(stream);
    if (!found) {
      return failOnStream(stream);
    }
    orError_t status = runtime().captures.checkStream(*found);
    if (status == orSuccess) {
      status = found->device().check();
    }
    return status == orSuccess ? found->start() : status;
  });
}

orError_t orGraphLaunch(orGraphExec_t exec, orStream_t stream) {
  return execApi("orGraphLaunch", exec, [&](GraphExec& found) {
    Stream* where = runtime().streams.find(stream);
    return where ? found.launch(*where) : failOnStream(stream);
  });
}

orError_t orGraphExecDestroy(orGraphExec_t exec) {
  return api("orGraphExecDestroy", [&](Runtime& runtime) {
    std::shared_ptr<const Program> program;
    return runtime.graphExecs.destroy(
               exec, [&](GraphExec& closed) { program = closed.close(); })
        ? orSuccess
        : failOnGraphExec(exec);
  });
}
