// Finds uses of the same bytes that nothing puts in order.
#pragma once

#include "sanitizer/Order.h"
#include "sanitizer/ShadowMemory.h"

#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace c10::openreg::sanitizer {

using Conflicts = std::vector<Conflict>;

/// Is told of all work and of all that orders it, and adds what it finds to a list.
///
/// Once a conflict is found, the order that was missing is taken for granted: what else
/// lacks it has the same cause.
///
/// What a stream captures does not run, so it is compared with what else the graph has,
/// by an order of its own. A replay is one piece of work that touches all that the nodes
/// touch.
///
/// Threads: one at a time.
class RaceDetector {
 public:
  using GraphKey = const void*;

  // --- work ---
  /// Returns the tick of the work in its stream.
  Tick launch(
      const WorkPtr& work,
      std::span<const Access> accesses,
      Conflicts& conflicts);
  void actOnHost(
      const WorkPtr& work,
      std::span<const Access> accesses,
      Conflicts& conflicts);

  // --- order ---
  void record(EventKey event, StreamKey stream);
  void destroy(EventKey event);
  void wait(StreamKey stream, EventKey event);
  void hostWaitsForEvent(EventKey event) {
    order_.hostWaitsForEvent(event);
  }
  void hostWaitsForStream(StreamKey stream) {
    order_.hostWaitsForStream(stream);
  }
  void hostWaitsForDevice(int device) {
    order_.hostWaitsForDevice(device);
  }

  bool hostIsAfter(StreamKey stream, Tick tick) const {
    return order_.hostIsAfter(stream, tick);
  }
  /// Whether what the stream launches does not run, but is captured.
  bool isCaptured(StreamKey stream) const {
    return capturing(stream) != nullptr;
  }

  // --- memory ---
  /// One range could have the memory of another: the other's uses count for it too.
  void inherit(Range range, Range from) {
    memory_.copy(from, range);
  }
  /// No earlier work uses the range any more.
  void forget(Range range);
  /// The same for the work of a stream.
  void forget(Range range, StreamKey stream);

  // --- graphs ---
  void beginCapture(GraphKey graph, StreamKey stream);
  void endCapture(GraphKey graph);
  void resetGraph(GraphKey graph) {
    endCapture(graph);
    graphs_.erase(graph);
  }
  /// Each replay of the graph that the stream is captured for does this.
  void recordExternally(EventKey event, StreamKey stream);
  void waitExternally(StreamKey stream, EventKey event);
  /// `replay` is the call; its place becomes that of the nodes' replay.
  void launchGraph(GraphKey graph, const WorkPtr& replay, Conflicts& conflicts);
  /// What a replay of the graph touches, and what for.
  struct Node {
    Access access;
    WorkPtr work;
  };
  std::span<const Node> nodesOf(GraphKey graph) const;

 private:
  struct Graph {
    Order order; // during the capture
    ShadowMemory memory;
    std::unordered_set<StreamKey> streams;
    std::vector<Node> nodes;
    std::vector<EventKey> recorded, waitedFor; // externally
  };
  Graph* capturing(StreamKey stream) const;
  /// Keeps one of the new conflicts with each actor, and assumes the order it lacks.
  static void assumeOrder(Order& order, Conflicts& conflicts, size_t known);

  Order order_;
  ShadowMemory memory_;
  std::unordered_map<GraphKey, Graph> graphs_;
  std::vector<Graph*> captures_; // that are underway
};

} // namespace c10::openreg::sanitizer
