// Launching graphs: what runs, in which order, and what a failure does.
#include "graph_support.h"

#include <chrono>
#include <numeric>
#include <stdexcept>

using namespace openreg::testing;
using namespace std::chrono_literals;

namespace {

class GraphLaunchTest : public ::testing::Test {
 protected:
  /// A kernel that notes its number.
  auto note(int number) {
    return [this, number] { ran_.push_back(number); };
  }
  void launch(orGraphExec_t exec) {
    ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess) << lastDetail();
    ASSERT_EQ(orStreamSynchronize(stream_), orSuccess) << lastDetail();
  }

  Stream stream_;
  std::vector<int> ran_; // by tasks of one stream after the other
};

TEST_F(GraphLaunchTest, NothingRunsWhileCapturing) {
  const Graph graph = captured(
      stream_, [&] { ASSERT_EQ(orLaunchKernel(stream_, note(1)), orSuccess); });
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_TRUE(ran_.empty());
}

TEST_F(GraphLaunchTest, EveryLaunchRunsTheKernelsInOrder) {
  const Graph graph = captured(stream_, [&] {
    ASSERT_EQ(orLaunchKernel(stream_, note(1)), orSuccess);
    const orLaunchConfig small{"small", orLaunchSmall};
    ASSERT_EQ(orLaunchKernelEx(&small, stream_, note(2)), orSuccess);
    ASSERT_EQ(orLaunchKernel(stream_, note(3)), orSuccess);
  });
  const Exec exec(graph);
  launch(exec);
  launch(exec);
  EXPECT_EQ(ran_, (std::vector<int>{1, 2, 3, 1, 2, 3}));
}

TEST_F(GraphLaunchTest, AGraphOfSmallKernelsRunsOnTheCallingThread) {
  const auto caller = std::this_thread::get_id();
  std::thread::id runner;
  const Graph graph = captured(stream_, [&] {
    const orLaunchConfig small{"small", orLaunchSmall};
    ASSERT_EQ(
        orLaunchKernelEx(
            &small, stream_, [&] { runner = std::this_thread::get_id(); }),
        orSuccess);
  });
  const Exec exec(graph);
  launch(exec);
  EXPECT_EQ(runner == caller, scheduleIs("auto"));
}

TEST_F(GraphLaunchTest, AGraphThatTookLongIsQueued) {
  const auto caller = std::this_thread::get_id();
  std::thread::id runner;
  const Graph graph = captured(stream_, [&] {
    const orLaunchConfig small{"small", orLaunchSmall};
    ASSERT_EQ(
        orLaunchKernelEx(
            &small,
            stream_,
            [&] {
              runner = std::this_thread::get_id();
              const auto end = std::chrono::steady_clock::now() + 20us;
              while (std::chrono::steady_clock::now() < end) {
              }
            }),
        orSuccess);
  });
  const Exec exec(graph);
  launch(exec);
  EXPECT_EQ(runner == caller, scheduleIs("auto"));
  launch(exec);
  EXPECT_NE(runner, caller);
}

TEST_F(GraphLaunchTest, CopiesAndSetsAreRepeated) {
  constexpr size_t kCount = 1000;
  PinnedArray<int> source(kCount, 0), result(kCount, 0);
  const DeviceArray<int> a(kCount), b(kCount);
  const Graph graph = captured(stream_, [&] {
    ASSERT_EQ(
        orMemcpyAsync(
            a.data(), source.data(), a.bytes(), orMemcpyHostToDevice, stream_),
        orSuccess);
    ASSERT_EQ(orMemsetAsync(b.data(), 0, b.bytes(), stream_), orSuccess);
    ASSERT_EQ(
        orMemcpyAsync(
            b.data(), a.data(), a.bytes() / 2, orMemcpyDeviceToDevice, stream_),
        orSuccess);
    ASSERT_EQ(
        orMemcpyAsync(
            result.data(), b.data(), b.bytes(), orMemcpyDeviceToHost, stream_),
        orSuccess);
  });
  EXPECT_EQ(
      typesOf(graph),
      (std::vector<orGraphNodeType>{
          orGraphNodeTypeMemcpy,
          orGraphNodeTypeMemset,
          orGraphNodeTypeMemcpy,
          orGraphNodeTypeMemcpy}));
  const Exec exec(graph);
  for (const int value : {7, 8}) {
    std::fill_n(source.data(), kCount, value);
    launch(exec);
    EXPECT_EQ(result[0], value);
    EXPECT_EQ(result[kCount / 2 - 1], value);
    EXPECT_EQ(result[kCount / 2], 0);
  }
}

TEST_F(GraphLaunchTest, LaunchesAreOrderedWithOtherWorkOfTheStream) {
  const Graph graph = captured(
      stream_, [&] { ASSERT_EQ(orLaunchKernel(stream_, note(0)), orSuccess); });
  const Exec exec(graph);
  std::vector<int> expected;
  for (int i = 1; i < 50; ++i) {
    ASSERT_EQ(orLaunchKernel(stream_, note(i)), orSuccess);
    ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
    expected.insert(expected.end(), {i, 0});
  }
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(ran_, expected);
}

TEST_F(GraphLaunchTest, LaunchesOfOneExecInTwoStreamsDoNotOverlap) {
  const Stream other;
  const Graph graph = captured(stream_, [&] {
    ASSERT_EQ(orLaunchKernel(stream_, note(1)), orSuccess);
    ASSERT_EQ(orLaunchKernel(stream_, note(2)), orSuccess);
  });
  const Exec exec(graph);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
    ASSERT_EQ(orGraphLaunch(exec, other), orSuccess);
  }
  ASSERT_EQ(orStreamSynchronize(other), orSuccess);
  ASSERT_EQ(ran_.size(), 80u);
  for (size_t i = 0; i < ran_.size(); ++i) {
    EXPECT_EQ(ran_[i], i % 2 + 1);
  }
}

TEST_F(GraphLaunchTest, TheGraphMayBeDestroyedAfterItWasInstantiated) {
  Graph graph = captured(
      stream_, [&] { ASSERT_EQ(orLaunchKernel(stream_, note(1)), orSuccess); });
  const Exec exec(graph);
  ASSERT_EQ(orGraphDestroy(graph.release()), orSuccess);
  launch(exec);
  EXPECT_EQ(ran_, std::vector<int>{1});
}

TEST_F(GraphLaunchTest, TheCallableDiesWithTheLastThatHoldsIt) {
  auto token = std::make_shared<int>(0);
  Graph graph = captured(stream_, [&] {
    ASSERT_EQ(orLaunchKernel(stream_, [token] { ++*token; }), orSuccess);
  });
  EXPECT_EQ(token.use_count(), 2);
  {
    const Exec exec(graph);
    ASSERT_EQ(orGraphDestroy(graph.release()), orSuccess);
    launch(exec);
    launch(exec);
    EXPECT_EQ(token.use_count(), 2);
  }
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(*token, 2);
}

TEST_F(GraphLaunchTest, AQueuedLaunchOutlivesTheExec) {
  {
    const Graph graph = captured(stream_, [&] {
      ASSERT_EQ(orLaunchKernel(stream_, note(1)), orSuccess);
    });
    const Exec exec(graph);
    Gate gate(stream_);
    ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
  }
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(ran_, std::vector<int>{1});
}

TEST_F(GraphLaunchTest, ArgumentsAreThereAgainInEveryLaunch) {
  std::vector<std::string> seen;
  const auto keep = [&seen](std::string text, int number) {
    seen.push_back(text + std::to_string(number));
  };
  const Graph graph = captured(stream_, [&] {
    ASSERT_EQ(
        orLaunchKernel(stream_, keep, std::string(100, 'x'), 5), orSuccess);
  });
  const Exec exec(graph);
  launch(exec);
  launch(exec);
  std::string text(100, 'x');
  text += '5';
  EXPECT_EQ(seen, std::vector<std::string>(2, text));
}

TEST_F(GraphLaunchTest, HostFunctionsAndCFunctionsAreRepeated) {
  int calls = 0;
  const auto count = [](void* data) { ++*static_cast<int*>(data); };
  int* pointer = &calls;
  const auto countThrough = [](void* data) { ++**static_cast<int**>(data); };
  const Graph graph = captured(stream_, [&] {
    ASSERT_EQ(orLaunchHostFunc(stream_, count, &calls), orSuccess);
    ASSERT_EQ(
        orLaunchKernelC(stream_, countThrough, &pointer, sizeof(pointer)),
        orSuccess);
  });
  EXPECT_EQ(
      typesOf(graph),
      (std::vector<orGraphNodeType>{
          orGraphNodeTypeHost, orGraphNodeTypeKernel}));
  const Exec exec(graph);
  launch(exec);
  launch(exec);
  EXPECT_EQ(calls, 4);
}

TEST_F(GraphLaunchTest, AnEmptyGraphRuns) {
  const Graph graph = captured(stream_, [] {});
  EXPECT_EQ(nodeCount(graph), 0u);
  const Exec exec(graph);
  launch(exec);
}

TEST_F(GraphLaunchTest, ALaunchInACapturingStreamIsAChildGraph) {
  Graph inner = captured(stream_, [&] {
    ASSERT_EQ(orLaunchKernel(stream_, note(1)), orSuccess);
    ASSERT_EQ(orLaunchKernel(stream_, note(2)), orSuccess);
  });
  Graph outer = captured(stream_, [&] {
    const Exec exec(inner);
    ASSERT_EQ(orLaunchKernel(stream_, note(0)), orSuccess);
    ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
    ASSERT_EQ(orLaunchKernel(stream_, note(3)), orSuccess);
  });
  ASSERT_EQ(orGraphDestroy(inner.release()), orSuccess);
  EXPECT_EQ(
      typesOf(outer),
      (std::vector<orGraphNodeType>{
          orGraphNodeTypeKernel, orGraphNodeTypeGraph, orGraphNodeTypeKernel}));
  const Exec exec(outer);
  launch(exec);
  EXPECT_EQ(ran_, (std::vector<int>{0, 1, 2, 3}));
}

TEST_F(GraphLaunchTest, AFailingNodeBreaksTheDeviceAndDropsTheRest) {
  const Graph graph = captured(stream_, [&] {
    ASSERT_EQ(orLaunchKernel(stream_, note(1)), orSuccess);
    const orLaunchConfig config{"the culprit", orLaunchDefault};
    ASSERT_EQ(
        orLaunchKernelEx(
            &config, stream_, [] { throw std::runtime_error("on purpose"); }),
        orSuccess);
    ASSERT_EQ(orLaunchKernel(stream_, note(2)), orSuccess);
  });
  const Exec exec(graph);
  ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream_), orErrorLaunchFailure);
  EXPECT_TRUE(detailHas("'the culprit' failed"));
  EXPECT_TRUE(detailHas("on purpose"));
  EXPECT_EQ(orGraphLaunch(exec, stream_), orErrorLaunchFailure);
  EXPECT_EQ(ran_, std::vector<int>{1});
  ASSERT_EQ(orDeviceReset(), orSuccess);
}

TEST_F(GraphLaunchTest, ANodeThatTouchesClosedMemoryBreaksTheDevice) {
  const DeviceArray<int> array(1);
  const Graph graph = captured(stream_, [&] {
    ASSERT_EQ(
        orLaunchKernel(
            stream_, [p = array.data()] { *const_cast<volatile int*>(p) = 1; }),
        orSuccess);
    ASSERT_EQ(orLaunchKernel(stream_, note(2)), orSuccess);
  });
  const Exec exec(graph);
  ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream_), orErrorIllegalAddress);
  EXPECT_TRUE(ran_.empty());
  ASSERT_EQ(orDeviceReset(), orSuccess);
}

TEST_F(GraphLaunchTest, BadHandlesAreRecognised) {
  Graph graph = captured(stream_, [] {});
  orGraphExec_t exec = nullptr;
  ASSERT_EQ(orGraphInstantiate(&exec, graph, 0), orSuccess);
  EXPECT_EQ(orGraphLaunch(nullptr, stream_), orErrorInvalidHandle);
  EXPECT_TRUE(detailHas("exec must not be NULL"));
  EXPECT_EQ(orGraphLaunch(exec, nullptr), orErrorInvalidHandle);
  EXPECT_EQ(orGraphUpload(nullptr, stream_), orErrorInvalidHandle);
  EXPECT_EQ(orGraphUpload(exec, nullptr), orErrorInvalidHandle);
  EXPECT_EQ(orGraphInstantiate(nullptr, graph, 0), orErrorInvalidValue);
  EXPECT_EQ(orGraphInstantiate(&exec, graph, 1), orErrorInvalidValue);
  EXPECT_EQ(orGraphInstantiate(&exec, nullptr, 0), orErrorInvalidHandle);
  ASSERT_EQ(orGraphExecDestroy(exec), orSuccess);
  EXPECT_EQ(orGraphExecDestroy(exec), orErrorInvalidHandle);
  EXPECT_EQ(orGraphLaunch(exec, stream_), orErrorInvalidHandle);
  EXPECT_TRUE(detailHas("not a live executable graph"));
}

TEST_F(GraphLaunchTest, UploadStartsTheStreamAndRunsNothing) {
  const Graph graph = captured(
      stream_, [&] { ASSERT_EQ(orLaunchKernel(stream_, note(1)), orSuccess); });
  const Exec exec(graph);
  ASSERT_EQ(orGraphUpload(exec, stream_), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_TRUE(ran_.empty());
  ASSERT_EQ(
      orStreamBeginCapture(stream_, orStreamCaptureModeRelaxed), orSuccess);
  EXPECT_EQ(orGraphUpload(exec, stream_), orErrorStreamCaptureUnsupported);
  expectInvalidated(stream_);
}

} // namespace
