// A graph: recorded work and the order between its pieces.
#pragma once

#include "openreg/graph.h"
#include "openreg/launch.h"
#include "ring.h"
#include "stream.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace openreg {

class Device;
struct GraphNodes;

/// One piece of recorded work. Constant once it is recorded, and shared by all
/// graphs and executable graphs that have it; the callable dies with the last.
struct GraphNode {
  explicit GraphNode(orGraphNodeType kind) : type(kind) {}
  /// Recorded from `work`, whose callable is moved from.
  GraphNode(const Work& work, Device& where);
  ~GraphNode();
  GraphNode(const GraphNode&) = delete;
  GraphNode& operator=(const GraphNode&) = delete;

  orGraphNodeType type;
  TaskInfo info{};
  Device* device = nullptr; // where it was recorded
  size_t bytes = 0; // of copies and sets
  bool small = false; // as Where::Idle
  uint32_t graph = 0; // in which it was recorded
  uint64_t id = 0; // of no other node of the process

  const orCallableType* callableType = nullptr; // nullptr: there is none
  alignas(void*) std::byte callable[OPENREG_CALLABLE_BYTES];
  orEvent_t event = nullptr; // of event nodes
  std::shared_ptr<const GraphNodes> child; // of child graph nodes
};

/// The nodes of a graph and what each depends on. Nodes come after those they
/// depend on, so their own order is one in which they can run.
struct GraphNodes {
  struct Entry {
    std::shared_ptr<GraphNode> node;
    std::vector<uint32_t> dependencies; // indices below its own
  };

  GraphNodes();

  /// Returns the index of the new node.
  uint32_t add(
      std::shared_ptr<GraphNode> node,
      std::vector<uint32_t> dependencies);

  uint32_t id; // of no other graph of the process
  std::vector<Entry> entries;
};

/// What a handle names.
///
/// Threads: any. The nodes are read and changed under a lock.
class Graph {
 public:
  void open(GraphNodes nodes);
  /// The nodes, to be destroyed where no lock is held: their callables may use the
  /// library.
  GraphNodes close();
  bool reusable() const {
    return true;
  }

  /// 0 while the graph is closed.
  uint32_t id() const {
    return id_.load(std::memory_order_acquire);
  }

  template <class Body>
  auto withNodes(Body body) {
    std::lock_guard lock(mutex_);
    return body(nodes_);
  }

 private:
  std::mutex mutex_;
  std::atomic<uint32_t> id_{0};
  GraphNodes nodes_;
};

/// Names a graph, or fails because there are too many.
orError_t createGraph(GraphNodes nodes, orGraph_t* graph);

orError_t failOnGraph(orGraph_t handle);

/// The handle of a graph's node.
orGraphNode_t nodeHandle(uint32_t graph, size_t index);

/// Makes `merged` contain `more` too.
void mergeIndices(
    std::vector<uint32_t>& merged,
    const std::vector<uint32_t>& more);

} // namespace openreg
