#include "graph.h"

#include "device.h"
#include "runtime.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace openreg {
namespace {

std::atomic<uint32_t> lastGraphId{0};

orGraphNodeType nodeType(TaskKind kind) {
  switch (kind) {
    case TaskKind::Copy:
      return orGraphNodeTypeMemcpy;
    case TaskKind::Set:
      return orGraphNodeTypeMemset;
    case TaskKind::HostFunc:
      return orGraphNodeTypeHost;
    default:
      return orGraphNodeTypeKernel;
  }
}

} // namespace

GraphNode::GraphNode(const Work& work, Device& where)
    : type(nodeType(work.info.kind)),
      info(work.info),
      device(&where),
      bytes(work.bytes),
      small(work.where == Where::Idle),
      callableType(work.type) {
  if (work.type->move) {
    work.type->move(callable, work.callable);
  } else {
    std::memcpy(callable, work.callable, work.type->size);
  }
}

GraphNode::~GraphNode() {
  if (callableType && callableType->destroy) {
    callableType->destroy(callable);
  }
}

GraphNodes::GraphNodes() : id(++lastGraphId) {}

uint32_t GraphNodes::add(
    std::shared_ptr<GraphNode> node,
    std::vector<uint32_t> dependencies) {
  const auto index = static_cast<uint32_t>(entries.size());
  node->graph = id;
  node->id = uint64_t{id} << 32 | (index + 1);
  entries.push_back({std::move(node), std::move(dependencies)});
  return index;
}

void Graph::open(GraphNodes nodes) {
  std::lock_guard lock(mutex_);
  nodes_ = std::move(nodes);
  id_.store(nodes_.id, std::memory_order_release);
}

GraphNodes Graph::close() {
  std::lock_guard lock(mutex_);
  id_.store(0, std::memory_order_release);
  return std::exchange(nodes_, {});
}

orError_t createGraph(GraphNodes nodes, orGraph_t* graph) {
  *graph = runtime().graphs.create(
      [&](Graph& opened) { opened.open(std::move(nodes)); });
  return *graph ? orSuccess
                : fail(
                      orErrorMemoryAllocation,
                      "too many graphs are alive; destroy some with "
                      "orGraphDestroy()");
}

orError_t failOnGraph(orGraph_t handle) {
  return handle ? fail(
                      orErrorInvalidHandle,
                      "%p is not a live graph; was it destroyed?",
                      static_cast<void*>(handle))
                : fail(orErrorInvalidHandle, "graph must not be NULL");
}

void mergeIndices(
    std::vector<uint32_t>& merged,
    const std::vector<uint32_t>& more) {
  for (const uint32_t index : more) {
    if (std::find(merged.begin(), merged.end(), index) == merged.end()) {
      merged.push_back(index);
    }
  }
}

// --- handles of nodes: a mark, the number of the graph, the place in it --------

namespace {

constexpr uintptr_t kNodeMark = uintptr_t{5} << 56;
constexpr uintptr_t kPlaces = uintptr_t{1} << 24;

} // namespace

orGraphNode_t nodeHandle(uint32_t graph, size_t index) {
  return reinterpret_cast<orGraphNode_t>(
      kNodeMark | uintptr_t{graph} << 24 | index);
}

} // namespace openreg

using namespace openreg;

namespace {

/// Calls `body(nodes)` with the nodes of the graph that a handle names.
template <class Body>
orError_t graphApi(const char* name, orGraph_t handle, Body body) {
  return api(name, [&](Runtime& runtime) {
    Graph* graph = runtime.graphs.find(handle);
    return graph ? graph->withNodes(body) : failOnGraph(handle);
  });
}

/// The place of a node in the graph, or -1.
int64_t placeOf(const GraphNodes& nodes, orGraphNode_t handle) {
  const auto place = reinterpret_cast<uintptr_t>(handle) % kPlaces;
  return place < nodes.entries.size() && nodeHandle(nodes.id, place) == handle
      ? static_cast<int64_t>(place)
      : -1;
}

orError_t addNode(
    orGraphNode_t* result,
    GraphNodes& nodes,
    const orGraphNode_t* dependencies,
    size_t numDependencies,
    std::shared_ptr<GraphNode> node) {
  if (!result) {
    return fail(orErrorInvalidValue, "node must not be NULL");
  }
  if (!dependencies && numDependencies != 0) {
    return fail(
        orErrorInvalidValue,
        "dependencies must not be NULL for %zu of them",
        numDependencies);
  }
  std::vector<uint32_t> before;
  for (size_t i = 0; i < numDependencies; ++i) {
    const int64_t place = placeOf(nodes, dependencies[i]);
    if (place < 0) {
      return fail(
          orErrorInvalidValue,
          "dependencies[%zu] is not a node of the graph",
          i);
    }
    before.push_back(static_cast<uint32_t>(place));
    if (std::count(before.begin(), before.end(), before.back()) > 1) {
      return fail(orErrorInvalidValue, "dependencies[%zu] is given twice", i);
    }
  }
  *result = nodeHandle(nodes.id, nodes.add(std::move(node), std::move(before)));
  return orSuccess;
}

/// Fills arrays of `*count` handles from a list of `total`, as CUDA does.
template <class Write>
void writeList(size_t total, size_t* count, Write write) {
  const size_t room = std::exchange(*count, std::min(*count, total));
  for (size_t i = 0; i < room; ++i) {
    write(i, i < total);
  }
}

} // namespace

orError_t orGraphCreate(orGraph_t* graph, unsigned int flags) {
  return api("orGraphCreate", [&](Runtime&) {
    if (!graph) {
      return fail(orErrorInvalidValue, "graph must not be NULL");
    }
    if (flags != 0) {
      return fail(orErrorInvalidValue, "flags must be 0, but is %u", flags);
    }
    return createGraph({}, graph);
  });
}

orError_t orGraphDestroy(orGraph_t graph) {
  return api("orGraphDestroy", [&](Runtime& runtime) {
    GraphNodes nodes;
    return runtime.graphs.destroy(
               graph, [&](Graph& closed) { nodes = closed.close(); })
        ? orSuccess
        : failOnGraph(graph);
  });
}

orError_t orGraphAddEmptyNode(
    orGraphNode_t* node,
    orGraph_t graph,
    const orGraphNode_t* dependencies,
    size_t numDependencies) {
  return graphApi("orGraphAddEmptyNode", graph, [&](GraphNodes& nodes) {
    return addNode(
        node,
        nodes,
        dependencies,
        numDependencies,
        std::make_shared<GraphNode>(orGraphNodeTypeEmpty));
  });
}

orError_t orGraphAddChildGraphNode(
    orGraphNode_t* node,
    orGraph_t graph,
    const orGraphNode_t* dependencies,
    size_t numDependencies,
    orGraph_t child) {
  std::shared_ptr<GraphNode> added;
  const orError_t status =
      graphApi("orGraphAddChildGraphNode", child, [&](const GraphNodes& nodes) {
        added = std::make_shared<GraphNode>(orGraphNodeTypeGraph);
        added->child = std::make_shared<GraphNodes>(nodes);
        return orSuccess;
      });
  return status != orSuccess
      ? status
      : graphApi("orGraphAddChildGraphNode", graph, [&](GraphNodes& nodes) {
          return addNode(
              node, nodes, dependencies, numDependencies, std::move(added));
        });
}

orError_t orGraphGetNodes(
    orGraph_t graph,
    orGraphNode_t* nodes,
    size_t* numNodes) {
  return graphApi("orGraphGetNodes", graph, [&](const GraphNodes& found) {
    if (!numNodes) {
      return fail(orErrorInvalidValue, "numNodes must not be NULL");
    }
    const size_t total = found.entries.size();
    if (!nodes) {
      *numNodes = total;
      return orSuccess;
    }
    writeList(total, numNodes, [&](size_t i, bool exists) {
      nodes[i] = exists ? nodeHandle(found.id, i) : nullptr;
    });
    return orSuccess;
  });
}

orError_t orGraphGetEdges(
    orGraph_t graph,
    orGraphNode_t* from,
    orGraphNode_t* to,
    size_t* numEdges) {
  return graphApi("orGraphGetEdges", graph, [&](const GraphNodes& found) {
    if (!numEdges || !from != !to) {
      return fail(
          orErrorInvalidValue,
          numEdges ? "from and to must both be NULL or neither"
                   : "numEdges must not be NULL");
    }
    std::vector<std::pair<uint32_t, uint32_t>> edges;
    for (uint32_t i = 0; i < found.entries.size(); ++i) {
      for (const uint32_t before : found.entries[i].dependencies) {
        edges.emplace_back(before, i);
      }
    }
    if (!from) {
      *numEdges = edges.size();
      return orSuccess;
    }
    writeList(edges.size(), numEdges, [&](size_t i, bool exists) {
      from[i] = exists ? nodeHandle(found.id, edges[i].first) : nullptr;
      to[i] = exists ? nodeHandle(found.id, edges[i].second) : nullptr;
    });
    return orSuccess;
  });
}

orError_t orGraphNodeGetType(orGraphNode_t node, orGraphNodeType* type) {
  return api("orGraphNodeGetType", [&](Runtime& runtime) {
    if (!type) {
      return fail(orErrorInvalidValue, "type must not be NULL");
    }
    const auto bits = reinterpret_cast<uintptr_t>(node);
    const auto id = static_cast<uint32_t>(bits / kPlaces);
    bool isFound = false;
    runtime.graphs.forEach([&](Graph& graph) {
      if (id == 0 || graph.id() != id) {
        return;
      }
      graph.withNodes([&](const GraphNodes& nodes) {
        const int64_t place = placeOf(nodes, node);
        isFound = place >= 0;
        if (isFound) {
          *type = nodes.entries[static_cast<size_t>(place)].node->type;
        }
      });
    });
    return isFound ? orSuccess
                   : fail(
                         orErrorInvalidHandle,
                         "%p is not a node of a live graph",
                         static_cast<void*>(node));
  });
}
