#include "program.h"

#include "adversary.h"
#include "device.h"
#include "os.h"
#include "running_task.h"
#include "runtime.h"
#include "transfer.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace openreg {
namespace {

// Up to here a graph of small nodes may run on the calling thread.
constexpr size_t kSmallGraph = 256;

// The order in which the nodes run. The adversarial schedule turns round what the
// edges leave open.
std::vector<uint32_t> orderOf(const GraphNodes& nodes) {
  const auto count = static_cast<uint32_t>(nodes.entries.size());
  std::vector<uint32_t> order;
  order.reserve(count);
  const Adversary* const adversary = runtime().adversary();
  if (!adversary) {
    for (uint32_t i = 0; i < count; ++i) {
      order.push_back(i);
    }
    return order;
  }
  std::vector<std::vector<uint32_t>> followers(count);
  std::vector<size_t> awaited(count);
  std::priority_queue<std::pair<uint64_t, uint32_t>> ready;
  const auto makeReady = [&](uint32_t i) {
    ready.emplace(adversary->rank(i), i);
  };
  for (uint32_t i = 0; i < count; ++i) {
    awaited[i] = nodes.entries[i].dependencies.size();
    for (const uint32_t before : nodes.entries[i].dependencies) {
      followers[before].push_back(i);
    }
    if (awaited[i] == 0) {
      makeReady(i);
    }
  }
  while (!ready.empty()) {
    order.push_back(ready.top().second);
    ready.pop();
    for (const uint32_t next : followers[order.back()]) {
      if (--awaited[next] == 0) {
        makeReady(next);
      }
    }
  }
  return order;
}

template <class T>
void addOnce(std::vector<T>& all, T one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) {
    all.push_back(one);
  }
}

} // namespace

LaunchRecords::~LaunchRecords() {
  for (size_t i = 0; i < records_.size(); ++i) {
    if (!stamped_[i]) {
      stamp(i);
    }
  }
}

void LaunchRecords::stamp(size_t index) {
  Event::stamp(records_[index]);
  stamped_[index] = true;
}

Program::Program(GraphNodes nodes)
    : nodes_(std::make_shared<GraphNodes>(std::move(nodes))) {
  append(*nodes_);
  small_ = small_ && steps_.size() <= kSmallGraph && bytes_ <= kSmallTransfer;
}

void Program::append(const GraphNodes& nodes) {
  for (const uint32_t index : orderOf(nodes)) {
    append(*nodes.entries[index].node);
  }
}

void Program::append(const GraphNode& node) {
  if (node.device) {
    addOnce(devices_, node.device);
  }
  switch (node.type) {
    case orGraphNodeTypeEmpty:
      return;
    case orGraphNodeTypeGraph:
      append(*node.child);
      return;
    case orGraphNodeTypeWaitEvent:
      addOnce(waits_, node.event);
      return;
    case orGraphNodeTypeEventRecord:
      steps_.push_back({nullptr, nullptr, &node, records_.size()});
      records_.push_back(node.event);
      return;
    default:
      small_ = small_ && node.small;
      bytes_ += node.bytes;
      steps_.push_back(
          {node.callableType->run,
           const_cast<std::byte*>(node.callable),
           &node,
           0});
  }
}

// docs:begin graph-walk
void Program::run(LaunchRecords* records) const {
  RunningTask& task = *runningTask;
  const uint64_t start = small_ ? os::now() : 0;
  for (const Step& step : steps_) {
    const GraphNode& node = *step.node;
    if (node.device->dropsWork()) [[unlikely]] {
      return;
    }
    task.node = &node;
    task.info = &node.info;
    task.stream.noteRunning(node.info.name);
    if (process::exiting.load(std::memory_order_relaxed)) [[unlikely]] {
      task.stream.noteRunning(nullptr);
      os::sleepForever();
    }
    if (task.trace) [[unlikely]] {
      beginTrace(task, *task.trace);
    }
    if (step.run) {
      step.run(step.callable);
    } else {
      records->stamp(step.record);
    }
    if (task.failure) [[unlikely]] {
      return;
    }
    settle(task);
  }
  if (small_) {
    const uint64_t taken = os::now() - start;
    const uint64_t fastest = fastest_.load(std::memory_order_relaxed);
    if (fastest == 0 || taken < fastest) {
      fastest_.store(taken, std::memory_order_relaxed);
    }
  }
}
// docs:end graph-walk

} // namespace openreg
