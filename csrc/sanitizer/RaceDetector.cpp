#include "sanitizer/RaceDetector.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace c10::openreg::sanitizer {

// --- work ---------------------------------------------------------------------

RaceDetector::Graph* RaceDetector::capturing(StreamKey stream) const {
  for (Graph* graph : captures_) {
    if (graph->streams.contains(stream)) {
      return graph;
    }
  }
  return nullptr;
}

Tick RaceDetector::launch(
    const WorkPtr& work,
    std::span<const Access> accesses,
    Conflicts& conflicts) {
  Graph* graph = capturing(work->stream);
  Order& order = graph ? graph->order : order_;
  ShadowMemory& memory = graph ? graph->memory : memory_;
  const size_t known = conflicts.size();
  const auto [actor, tick, before] = order.launch(work->stream, work->device);
  for (const Access& access : accesses) {
    memory.use(
        access.range, {actor, tick, access.writes, work}, before, conflicts);
    if (graph) {
      graph->nodes.push_back({access, work});
    }
  }
  assumeOrder(order, conflicts, known);
  return tick;
}

void RaceDetector::assumeOrder(
    Order& order,
    Conflicts& conflicts,
    size_t known) {
  std::set<Actor> assumed;
  const auto isKnown = [&](const Conflict& conflict) {
    return !assumed.insert(conflict.earlier.actor).second;
  };
  const auto first = conflicts.begin() + static_cast<ptrdiff_t>(known);
  conflicts.erase(
      std::remove_if(first, conflicts.end(), isKnown), conflicts.end());
  for (size_t i = known; i < conflicts.size(); ++i) {
    order.assume(conflicts[i].later.actor, conflicts[i].earlier.actor);
  }
}

void RaceDetector::actOnHost(
    const WorkPtr& work,
    std::span<const Access> accesses,
    Conflicts& conflicts) {
  const size_t known = conflicts.size();
  const auto [actor, tick, before] = order_.actOnHost();
  for (const Access& access : accesses) {
    memory_.use(
        access.range, {actor, tick, access.writes, work}, before, conflicts);
  }
  assumeOrder(order_, conflicts, known);
}

// --- order --------------------------------------------------------------------

void RaceDetector::record(EventKey event, StreamKey stream) {
  Graph* graph = capturing(stream);
  destroy(event); // it stands for something else from now on
  (graph ? graph->order : order_).record(event, stream);
}

void RaceDetector::destroy(EventKey event) {
  order_.destroy(event);
  for (Graph* graph : captures_) {
    graph->order.destroy(event);
  }
}

// A stream joins a capture when it waits for an event of it.
void RaceDetector::wait(StreamKey stream, EventKey event) {
  for (Graph* graph : captures_) {
    if (graph->order.hasEvent(event)) {
      graph->streams.insert(stream);
      graph->order.wait(stream, event);
      return;
    }
  }
  if (!capturing(stream)) {
    order_.wait(stream, event);
  }
}

// --- memory -------------------------------------------------------------------

void RaceDetector::forget(Range range) {
  memory_.forget(range);
  for (Graph* graph : captures_) {
    graph->memory.forget(range);
  }
}

void RaceDetector::forget(Range range, StreamKey stream) {
  if (const Actor actor = order_.find(stream); actor != kHost) {
    memory_.forget(range, actor);
  }
  for (Graph* graph : captures_) {
    if (const Actor actor = graph->order.find(stream); actor != kHost) {
      graph->memory.forget(range, actor);
    }
  }
}

// --- graphs -------------------------------------------------------------------

void RaceDetector::beginCapture(GraphKey key, StreamKey stream) {
  resetGraph(key);
  Graph& graph = graphs_[key];
  graph.streams.insert(stream);
  captures_.push_back(&graph);
}

void RaceDetector::endCapture(GraphKey key) {
  const auto found = graphs_.find(key);
  if (found == graphs_.end() || std::erase(captures_, &found->second) == 0) {
    return;
  }
  Graph& graph = found->second;
  graph.order = {};
  graph.memory = {};
  graph.streams.clear();
  // Kernels touch the same bytes again and again; the first one stands for all.
  std::set<std::tuple<uintptr_t, uintptr_t, bool>> known;
  std::erase_if(graph.nodes, [&](const Node& node) {
    const auto& [range, writes] = node.access;
    return !known.emplace(range.begin, range.end, writes).second;
  });
}

void RaceDetector::recordExternally(EventKey event, StreamKey stream) {
  if (Graph* graph = capturing(stream)) {
    graph->recorded.push_back(event);
  } else {
    record(event, stream);
  }
}

void RaceDetector::waitExternally(StreamKey stream, EventKey event) {
  if (Graph* graph = capturing(stream)) {
    graph->waitedFor.push_back(event);
  } else {
    wait(stream, event);
  }
}

void RaceDetector::launchGraph(
    GraphKey key,
    const WorkPtr& replay,
    Conflicts& conflicts) {
  const auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    return; // captured before anybody looked
  }
  const Graph& graph = found->second;
  for (const EventKey event : graph.waitedFor) {
    order_.wait(replay->stream, event);
  }
  const size_t known = conflicts.size();
  const auto [actor, tick, before] =
      order_.launch(replay->stream, replay->device);
  std::unordered_map<const Work*, WorkPtr> works; // that run in this replay
  for (const auto& [access, node] : graph.nodes) {
    WorkPtr& work = works[node.get()];
    if (!work) {
      work = std::make_shared<const Work>(
          node->name,
          replay->stream,
          replay->device,
          replay->number,
          node->place,
          replay->place);
    }
    memory_.use(
        access.range, {actor, tick, access.writes, work}, before, conflicts);
  }
  assumeOrder(order_, conflicts, known);
  for (const EventKey event : graph.recorded) {
    order_.record(event, replay->stream);
  }
}

std::span<const RaceDetector::Node> RaceDetector::nodesOf(GraphKey key) const {
  const auto found = graphs_.find(key);
  return found == graphs_.end() ? std::span<const Node>{}
                                : std::span<const Node>(found->second.nodes);
}

} // namespace c10::openreg::sanitizer
