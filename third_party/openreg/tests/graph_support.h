// What the tests of captures and graphs share.
#pragma once

#include "support.h"

#include <functional>
#include <utility>

namespace openreg::testing {

/// A graph, destroyed at the end of the scope.
class Graph {
 public:
  Graph() = default;
  explicit Graph(orGraph_t graph) : graph_(graph) {}
  Graph(Graph&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)) {}
  ~Graph() {
    if (graph_) {
      EXPECT_EQ(orGraphDestroy(graph_), orSuccess);
    }
  }
  operator orGraph_t() const {
    return graph_;
  }
  orGraph_t release() {
    return std::exchange(graph_, nullptr);
  }

 private:
  orGraph_t graph_ = nullptr;
};

/// An executable graph, destroyed at the end of the scope.
class Exec {
 public:
  explicit Exec(orGraph_t graph) {
    EXPECT_EQ(orGraphInstantiate(&exec_, graph, 0), orSuccess);
  }
  ~Exec() {
    orGraphExecDestroy(exec_);
  }
  Exec(const Exec&) = delete;
  Exec& operator=(const Exec&) = delete;
  operator orGraphExec_t() const {
    return exec_;
  }

 private:
  orGraphExec_t exec_ = nullptr;
};

/// What `work` launches into `stream`, as a graph.
template <class Body>
Graph captured(
    orStream_t stream,
    Body work,
    orStreamCaptureMode mode = orStreamCaptureModeGlobal) {
  EXPECT_EQ(orStreamBeginCapture(stream, mode), orSuccess);
  work();
  orGraph_t graph = nullptr;
  EXPECT_EQ(orStreamEndCapture(stream, &graph), orSuccess) << lastDetail();
  return Graph(graph);
}

inline orStreamCaptureStatus statusOf(orStream_t stream) {
  auto status = static_cast<orStreamCaptureStatus>(-1);
  EXPECT_EQ(orStreamIsCapturing(stream, &status), orSuccess);
  return status;
}

/// Ends a capture that was invalidated, and expects the stream to be usable.
inline void expectInvalidated(orStream_t stream) {
  EXPECT_EQ(statusOf(stream), orStreamCaptureStatusInvalidated);
  EXPECT_EQ(orLaunchKernel(stream, [] {}), orErrorStreamCaptureInvalidated);
  auto* graph = reinterpret_cast<orGraph_t>(1);
  EXPECT_EQ(
      orStreamEndCapture(stream, &graph), orErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(statusOf(stream), orStreamCaptureStatusNone);
  bool ran = false;
  EXPECT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_TRUE(ran);
  orGetLastError();
}

inline size_t nodeCount(orGraph_t graph) {
  size_t count = 0;
  EXPECT_EQ(orGraphGetNodes(graph, nullptr, &count), orSuccess);
  return count;
}

inline std::vector<orGraphNode_t> nodesOf(orGraph_t graph) {
  size_t count = nodeCount(graph);
  std::vector<orGraphNode_t> nodes(count);
  EXPECT_EQ(orGraphGetNodes(graph, nodes.data(), &count), orSuccess);
  return nodes;
}

inline std::vector<orGraphNodeType> typesOf(orGraph_t graph) {
  std::vector<orGraphNodeType> types;
  for (const orGraphNode_t node : nodesOf(graph)) {
    types.emplace_back();
    EXPECT_EQ(orGraphNodeGetType(node, &types.back()), orSuccess);
  }
  return types;
}

/// The edges as pairs of places in nodesOf().
inline std::vector<std::pair<size_t, size_t>> edgesOf(orGraph_t graph) {
  size_t count = 0;
  EXPECT_EQ(orGraphGetEdges(graph, nullptr, nullptr, &count), orSuccess);
  std::vector<orGraphNode_t> from(count), to(count);
  EXPECT_EQ(orGraphGetEdges(graph, from.data(), to.data(), &count), orSuccess);
  const auto nodes = nodesOf(graph);
  const auto place = [&](orGraphNode_t node) {
    return static_cast<size_t>(
        std::find(nodes.begin(), nodes.end(), node) - nodes.begin());
  };
  std::vector<std::pair<size_t, size_t>> edges;
  for (size_t i = 0; i < count; ++i) {
    edges.emplace_back(place(from[i]), place(to[i]));
  }
  return edges;
}

/// Makes `to` come after what is in `from`.
inline void order(orStream_t from, orStream_t to) {
  Event event;
  EXPECT_EQ(orEventRecord(event, from), orSuccess);
  EXPECT_EQ(orStreamWaitEvent(to, event, 0), orSuccess) << lastDetail();
}

/// Two streams, and expectations about a capture in the first.
class CaptureConflictTest : public ::testing::Test {
 protected:
  void begin(
      orStream_t stream,
      orStreamCaptureMode mode = orStreamCaptureModeGlobal) {
    ASSERT_EQ(orStreamBeginCapture(stream, mode), orSuccess) << lastDetail();
  }
  void expectWhole(orStream_t stream) {
    EXPECT_EQ(statusOf(stream), orStreamCaptureStatusActive);
    orGraph_t graph = nullptr;
    EXPECT_EQ(orStreamEndCapture(stream, &graph), orSuccess) << lastDetail();
    EXPECT_EQ(orGraphDestroy(graph), orSuccess);
  }
  /// Begins, makes the call and expects it to fail with `code` and to invalidate.
  template <class Call>
  void expectInvalidates(
      orError_t code,
      Call call,
      orStreamCaptureMode mode = orStreamCaptureModeGlobal) {
    begin(stream_, mode);
    EXPECT_EQ(call(), code) << lastDetail();
    EXPECT_NE(lastDetail(), "");
    expectInvalidated(stream_);
  }
  template <class Call>
  void expectHarmless(
      Call call,
      orStreamCaptureMode mode = orStreamCaptureModeGlobal) {
    begin(stream_, mode);
    EXPECT_EQ(call(), orSuccess) << lastDetail();
    expectWhole(stream_);
  }

  Stream stream_, other_;
};

} // namespace openreg::testing
