// Graphs as objects: nodes, edges, children, updates, pictures.
#include "graph_support.h"

#include <fstream>
#include <sstream>

using namespace openreg::testing;

namespace {

using Edges = std::vector<std::pair<size_t, size_t>>;

class GraphTest : public ::testing::Test {
 protected:
  auto note(int number) {
    return [this, number] { ran_.push_back(number); };
  }
  /// A chain of kernels that note these numbers.
  Graph chain(const std::vector<int>& numbers) {
    return captured(stream_, [&] {
      for (const int number : numbers) {
        ASSERT_EQ(orLaunchKernel(stream_, note(number)), orSuccess);
      }
    });
  }
  void launch(orGraphExec_t exec) {
    ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess) << lastDetail();
    ASSERT_EQ(orStreamSynchronize(stream_), orSuccess) << lastDetail();
  }
  static Graph create() {
    orGraph_t graph = nullptr;
    EXPECT_EQ(orGraphCreate(&graph, 0), orSuccess);
    return Graph(graph);
  }

  Stream stream_, other_;
  std::vector<int> ran_;
};

// --- handles --------------------------------------------------------------------

TEST_F(GraphTest, BadHandlesAreRecognised) {
  Graph graph = chain({1});
  const orGraphNode_t node = nodesOf(graph)[0];
  const orGraph_t stale = graph.release();
  ASSERT_EQ(orGraphDestroy(stale), orSuccess);
  size_t count = 0;
  orGraphNodeType type{};
  orGraphNode_t added = nullptr;
  const Graph live = create();
  for (const orGraph_t bad :
       {stale, orGraph_t{}, reinterpret_cast<orGraph_t>(orStream_t{stream_})}) {
    EXPECT_EQ(orGraphDestroy(bad), orErrorInvalidHandle);
    EXPECT_EQ(orGraphGetNodes(bad, nullptr, &count), orErrorInvalidHandle);
    EXPECT_EQ(
        orGraphGetEdges(bad, nullptr, nullptr, &count), orErrorInvalidHandle);
    EXPECT_EQ(
        orGraphAddEmptyNode(&added, bad, nullptr, 0), orErrorInvalidHandle);
    EXPECT_EQ(
        orGraphAddChildGraphNode(&added, bad, nullptr, 0, live),
        orErrorInvalidHandle);
    EXPECT_EQ(
        orGraphAddChildGraphNode(&added, live, nullptr, 0, bad),
        orErrorInvalidHandle);
    EXPECT_EQ(orGraphDebugDotPrint(bad, "x", 0), orErrorInvalidHandle);
  }
  EXPECT_EQ(orGraphNodeGetType(node, &type), orErrorInvalidHandle);
  EXPECT_EQ(orGraphNodeGetType(nullptr, &type), orErrorInvalidHandle);
  EXPECT_EQ(nodeCount(live), 0u);
}

TEST_F(GraphTest, BadArgumentsAreRefused) {
  orGraph_t created = nullptr;
  EXPECT_EQ(orGraphCreate(nullptr, 0), orErrorInvalidValue);
  EXPECT_EQ(orGraphCreate(&created, 1), orErrorInvalidValue);
  const Graph graph = chain({1});
  orGraphNode_t node = nodesOf(graph)[0];
  EXPECT_EQ(orGraphGetNodes(graph, nullptr, nullptr), orErrorInvalidValue);
  size_t count = 1;
  EXPECT_EQ(
      orGraphGetEdges(graph, nullptr, nullptr, nullptr), orErrorInvalidValue);
  EXPECT_EQ(
      orGraphGetEdges(graph, &node, nullptr, &count), orErrorInvalidValue);
  EXPECT_EQ(orGraphNodeGetType(node, nullptr), orErrorInvalidValue);
  EXPECT_EQ(
      orGraphAddEmptyNode(nullptr, graph, nullptr, 0), orErrorInvalidValue);
  EXPECT_EQ(orGraphAddEmptyNode(&node, graph, nullptr, 1), orErrorInvalidValue);
}

TEST_F(GraphTest, ListsAreCutOrFilledUp) {
  const Graph graph = chain({1, 2, 3});
  const auto all = nodesOf(graph);
  std::vector<orGraphNode_t> nodes(5, all[0]), from(5, all[0]), to(5, all[0]);
  size_t count = 2;
  ASSERT_EQ(orGraphGetNodes(graph, nodes.data(), &count), orSuccess);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(nodes[2], all[0]);
  count = 5;
  ASSERT_EQ(orGraphGetNodes(graph, nodes.data(), &count), orSuccess);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(nodes[4], nullptr);
  count = 5;
  ASSERT_EQ(orGraphGetEdges(graph, from.data(), to.data(), &count), orSuccess);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(from[1], all[1]);
  EXPECT_EQ(to[1], all[2]);
  EXPECT_EQ(from[2], nullptr);
}

// --- built by hand ----------------------------------------------------------------

TEST_F(GraphTest, ChildGraphsAreBuiltByHandToo) {
  const Graph first = chain({1, 2}), second = chain({3});
  const Graph graph = create();
  orGraphNode_t a = nullptr, b = nullptr, c = nullptr;
  ASSERT_EQ(orGraphAddChildGraphNode(&a, graph, nullptr, 0, first), orSuccess);
  ASSERT_EQ(orGraphAddEmptyNode(&b, graph, &a, 1), orSuccess);
  const orGraphNode_t both[] = {a, b};
  ASSERT_EQ(orGraphAddChildGraphNode(&c, graph, both, 2, second), orSuccess);
  EXPECT_EQ(
      typesOf(graph),
      (std::vector<orGraphNodeType>{
          orGraphNodeTypeGraph, orGraphNodeTypeEmpty, orGraphNodeTypeGraph}));
  EXPECT_EQ(edgesOf(graph), (Edges{{0, 1}, {0, 2}, {1, 2}}));
  launch(Exec(graph));
  EXPECT_EQ(ran_, (std::vector<int>{1, 2, 3}));
}

TEST_F(GraphTest, DependenciesAreNodesOfTheGraphGivenOnce) {
  const Graph graph = create(), foreign = chain({1});
  orGraphNode_t node = nullptr, added = nullptr;
  ASSERT_EQ(orGraphAddEmptyNode(&node, graph, nullptr, 0), orSuccess);
  const orGraphNode_t twice[] = {node, node};
  EXPECT_EQ(orGraphAddEmptyNode(&added, graph, twice, 2), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("dependencies[1] is given twice"));
  const orGraphNode_t other = nodesOf(foreign)[0];
  EXPECT_EQ(orGraphAddEmptyNode(&added, graph, &other, 1), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("dependencies[0] is not a node of the graph"));
  EXPECT_EQ(nodeCount(graph), 1u);
}

TEST_F(GraphTest, AChildIsTheGraphAsItWas) {
  const Graph graph = chain({1});
  orGraphNode_t node = nullptr;
  ASSERT_EQ(
      orGraphAddChildGraphNode(&node, graph, nullptr, 0, graph), orSuccess);
  const Exec exec(graph);
  ASSERT_EQ(
      orGraphAddChildGraphNode(&node, graph, nullptr, 0, graph), orSuccess);
  launch(exec);
  EXPECT_EQ(ran_, (std::vector<int>{1, 1}));
  launch(Exec(graph));
  EXPECT_EQ(ran_.size(), 2u + 4u);
}

// --- updates -------------------------------------------------------------------------

TEST_F(GraphTest, AnUpdateReplacesTheNodes) {
  const Graph first = chain({1, 2});
  const Exec exec(first);
  {
    const Graph second = chain({3, 4});
    orGraphExecUpdateResultInfo info{};
    Gate gate(stream_);
    ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
    ASSERT_EQ(orGraphExecUpdate(exec, second, &info), orSuccess);
    EXPECT_EQ(info.result, orGraphExecUpdateSuccess);
    EXPECT_EQ(info.errorNode, nullptr);
  }
  launch(exec);
  EXPECT_EQ(ran_, (std::vector<int>{1, 2, 3, 4}));
}

TEST_F(GraphTest, AnUpdateNeedsTheSameShape) {
  const Graph graph = chain({1, 2});
  const Exec exec(graph);
  const auto refuse = [&](orGraph_t other,
                          orGraphExecUpdateResult result,
                          orGraphNode_t node) {
    orGraphExecUpdateResultInfo info{};
    EXPECT_EQ(
        orGraphExecUpdate(exec, other, &info), orErrorGraphExecUpdateFailure);
    EXPECT_EQ(info.result, result);
    EXPECT_EQ(info.errorNode, node);
    EXPECT_EQ(
        orGraphExecUpdate(exec, other, nullptr), orErrorGraphExecUpdateFailure);
  };
  const Graph shorter = chain({1}), longer = chain({1, 2, 3});
  refuse(shorter, orGraphExecUpdateErrorTopologyChanged, nullptr);
  refuse(longer, orGraphExecUpdateErrorTopologyChanged, nodesOf(longer)[2]);

  const Graph otherEdges = captured(stream_, [&] {
    order(stream_, other_);
    ASSERT_EQ(orLaunchKernel(stream_, note(1)), orSuccess);
    ASSERT_EQ(orLaunchKernel(other_, note(1)), orSuccess);
    order(other_, stream_);
  });
  refuse(
      otherEdges,
      orGraphExecUpdateErrorTopologyChanged,
      nodesOf(otherEdges)[1]);

  const Graph otherTypes = captured(stream_, [&] {
    ASSERT_EQ(orLaunchKernel(stream_, note(1)), orSuccess);
    ASSERT_EQ(orLaunchHostFunc(stream_, [](void*) {}, nullptr), orSuccess);
  });
  refuse(
      otherTypes,
      orGraphExecUpdateErrorNodeTypeChanged,
      nodesOf(otherTypes)[1]);
  launch(exec);
  EXPECT_EQ(ran_, (std::vector<int>{1, 2}));

  EXPECT_EQ(orGraphExecUpdate(nullptr, graph, nullptr), orErrorInvalidHandle);
  EXPECT_EQ(orGraphExecUpdate(exec, nullptr, nullptr), orErrorInvalidHandle);
}

TEST_F(GraphTest, AnUpdateLooksIntoChildren) {
  const auto parentOf = [](orGraph_t child) {
    Graph graph = create();
    orGraphNode_t node = nullptr;
    EXPECT_EQ(
        orGraphAddChildGraphNode(&node, graph, nullptr, 0, child), orSuccess);
    return graph;
  };
  const Graph parent = parentOf(chain({1}));
  const Exec exec(parent);
  const Graph fitting = parentOf(chain({2})), longer = parentOf(chain({1, 2}));
  orGraphExecUpdateResultInfo info{};
  EXPECT_EQ(
      orGraphExecUpdate(exec, longer, &info), orErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.errorNode, nodesOf(longer)[0]);
  ASSERT_EQ(orGraphExecUpdate(exec, fitting, &info), orSuccess);
  launch(exec);
  EXPECT_EQ(ran_, std::vector<int>{2});
}

// --- order ------------------------------------------------------------------------------

// Each of four branches of four is in order, and the join comes last, whatever
// the schedule does with what is left open.
TEST_F(GraphTest, EveryOrderKeepsTheEdges) {
  constexpr int kBranches = 4, kLength = 4, kJoin = 100;
  const Stream streams[kBranches];
  const Graph graph = captured(stream_, [&] {
    for (const Stream& branch : streams) {
      order(stream_, branch);
    }
    for (int i = 0; i < kLength; ++i) {
      for (int branch = 0; branch < kBranches; ++branch) {
        ASSERT_EQ(
            orLaunchKernel(streams[branch], note(branch * 10 + i)), orSuccess);
      }
    }
    for (const Stream& branch : streams) {
      order(branch, stream_);
    }
    ASSERT_EQ(orLaunchKernel(stream_, note(kJoin)), orSuccess);
  });
  launch(Exec(graph));
  ASSERT_EQ(ran_.size(), kBranches * kLength + 1u);
  EXPECT_EQ(ran_.back(), kJoin);
  const std::vector<int> asRecorded = {
      0, 10, 20, 30, 1, 11, 21, 31, 2, 12, 22, 32, 3, 13, 23, 33, kJoin};
  EXPECT_EQ(ran_ == asRecorded, !scheduleIs("adversarial"));
  for (int branch = 0; branch < kBranches; ++branch) {
    std::vector<int> own;
    for (const int number : ran_) {
      if (number / 10 == branch) {
        own.push_back(number % 10);
      }
    }
    EXPECT_EQ(own, (std::vector<int>{0, 1, 2, 3})) << "branch " << branch;
  }
}

// --- pictures ------------------------------------------------------------------------------

class DotTest : public GraphTest {
 protected:
  std::string print(orGraph_t graph, unsigned flags) {
    EXPECT_EQ(orGraphDebugDotPrint(graph, path_.c_str(), flags), orSuccess);
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  ~DotTest() override {
    std::remove(path_.c_str());
  }

  const std::string path_ =
      ::testing::TempDir() + "graph" + std::to_string(getpid()) + ".dot";
};

TEST_F(DotTest, ThePictureNamesNodesAndEdges) {
  const DeviceArray<char> array(64);
  const Exec child(chain({1}));
  const Graph graph = captured(stream_, [&] {
    const orLaunchConfig config{"add \"x\"", orLaunchDefault};
    ASSERT_EQ(orLaunchKernelEx(&config, stream_, [] {}), orSuccess);
    ASSERT_EQ(orMemsetAsync(array.data(), 0, 64, stream_), orSuccess);
    ASSERT_EQ(orGraphLaunch(child, stream_), orSuccess);
  });
  const std::string plain = print(graph, 0);
  const std::string verbose = print(graph, orGraphDebugDotFlagsVerbose);
  EXPECT_EQ(plain.find("digraph dot {"), 0u);
  EXPECT_NE(plain.find("\"0 kernel: add \\\"x\\\"\""), std::string::npos);
  EXPECT_NE(plain.find("1 memset"), std::string::npos);
  EXPECT_NE(plain.find("_node_0 -> "), std::string::npos);
  EXPECT_NE(plain.find("_node_2_node_0 "), std::string::npos);
  EXPECT_EQ(plain.find("64 bytes"), std::string::npos);
  EXPECT_NE(verbose.find("device 0, 64 bytes"), std::string::npos);
}

TEST_F(DotTest, BadArgumentsAreRefused) {
  const Graph graph = create();
  EXPECT_EQ(orGraphDebugDotPrint(graph, nullptr, 0), orErrorInvalidValue);
  EXPECT_EQ(orGraphDebugDotPrint(graph, path_.c_str(), 2), orErrorInvalidValue);
  EXPECT_EQ(
      orGraphDebugDotPrint(graph, "/no such folder/x.dot", 0),
      orErrorOperatingSystem);
  EXPECT_TRUE(detailHas("/no such folder/x.dot"));
}

} // namespace
