// Captures: how they begin, which streams take part, and how they end.
#include "graph_support.h"

#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

using namespace openreg::testing;

namespace {

class CaptureTest : public ::testing::Test {
 protected:
  void begin(
      orStream_t stream,
      orStreamCaptureMode mode = orStreamCaptureModeGlobal) {
    ASSERT_EQ(orStreamBeginCapture(stream, mode), orSuccess) << lastDetail();
  }
  Graph end(orStream_t stream) {
    orGraph_t graph = nullptr;
    EXPECT_EQ(orStreamEndCapture(stream, &graph), orSuccess) << lastDetail();
    return Graph(graph);
  }
  void kernel(orStream_t stream) {
    ASSERT_EQ(orLaunchKernel(stream, [] {}), orSuccess) << lastDetail();
  }
  orError_t endError(orStream_t stream) {
    orGraph_t graph = nullptr;
    const orError_t error = orStreamEndCapture(stream, &graph);
    EXPECT_EQ(graph, nullptr);
    return error;
  }

  Stream stream_, other_;
};

using Edges = std::vector<std::pair<size_t, size_t>>;

// --- begin and end ------------------------------------------------------------

TEST_F(CaptureTest, TheStatusTellsWhichCaptureAStreamIsIn) {
  EXPECT_EQ(statusOf(stream_), orStreamCaptureStatusNone);
  begin(stream_);
  EXPECT_EQ(statusOf(stream_), orStreamCaptureStatusActive);
  EXPECT_EQ(statusOf(other_), orStreamCaptureStatusNone);
  EXPECT_EQ(statusOf(defaultStream()), orStreamCaptureStatusNone);

  orStreamCaptureStatus status{};
  unsigned long long first = 0, second = 0;
  ASSERT_EQ(orStreamGetCaptureInfo(stream_, &status, &first), orSuccess);
  EXPECT_EQ(status, orStreamCaptureStatusActive);
  end(stream_);
  begin(stream_);
  ASSERT_EQ(orStreamGetCaptureInfo(stream_, &status, &second), orSuccess);
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, second);
  end(stream_);
  ASSERT_EQ(orStreamGetCaptureInfo(stream_, &status, &second), orSuccess);
  EXPECT_EQ(status, orStreamCaptureStatusNone);
  EXPECT_EQ(second, 0u);
  EXPECT_EQ(orStreamGetCaptureInfo(stream_, &status, nullptr), orSuccess);
}

TEST_F(CaptureTest, BadArgumentsAreRefused) {
  orGraph_t graph = nullptr;
  orStreamCaptureStatus status{};
  EXPECT_EQ(
      orStreamBeginCapture(nullptr, orStreamCaptureModeGlobal),
      orErrorInvalidHandle);
  EXPECT_EQ(
      orStreamBeginCapture(stream_, static_cast<orStreamCaptureMode>(3)),
      orErrorInvalidValue);
  EXPECT_TRUE(detailHas("but is 3"));
  EXPECT_EQ(orStreamEndCapture(nullptr, &graph), orErrorInvalidHandle);
  EXPECT_EQ(orStreamIsCapturing(nullptr, &status), orErrorInvalidHandle);
  EXPECT_EQ(orStreamIsCapturing(stream_, nullptr), orErrorInvalidValue);
  EXPECT_EQ(
      orStreamGetCaptureInfo(stream_, nullptr, nullptr), orErrorInvalidValue);
  EXPECT_EQ(orThreadExchangeStreamCaptureMode(nullptr), orErrorInvalidValue);
  auto mode = static_cast<orStreamCaptureMode>(-1);
  EXPECT_EQ(orThreadExchangeStreamCaptureMode(&mode), orErrorInvalidValue);

  begin(stream_);
  EXPECT_EQ(orStreamEndCapture(stream_, nullptr), orErrorInvalidValue);
  end(stream_);
}

TEST_F(CaptureTest, TheDefaultStreamCannotBeCaptured) {
  EXPECT_EQ(
      orStreamBeginCapture(defaultStream(), orStreamCaptureModeGlobal),
      orErrorStreamCaptureUnsupported);
}

TEST_F(CaptureTest, AStreamCapturesOnceAtATime) {
  begin(stream_);
  EXPECT_EQ(
      orStreamBeginCapture(stream_, orStreamCaptureModeGlobal),
      orErrorIllegalState);
  kernel(stream_);
  EXPECT_EQ(nodeCount(end(stream_)), 1u);
  EXPECT_EQ(endError(stream_), orErrorIllegalState);
  EXPECT_TRUE(detailHas("is not capturing"));
}

TEST_F(CaptureTest, ABrokenDeviceRefusesToCapture) {
  const BrokenDevice broken;
  EXPECT_EQ(
      orStreamBeginCapture(stream_, orStreamCaptureModeGlobal), orErrorAssert);
}

// --- forks and joins ----------------------------------------------------------

TEST_F(CaptureTest, WorkOfOneStreamIsAChain) {
  begin(stream_);
  for (int i = 0; i < 3; ++i) {
    kernel(stream_);
  }
  const Graph graph = end(stream_);
  EXPECT_EQ(edgesOf(graph), (Edges{{0, 1}, {1, 2}}));
}

TEST_F(CaptureTest, AnEventTakesAnotherStreamIntoTheCapture) {
  begin(stream_);
  kernel(stream_); // 0
  order(stream_, other_);
  EXPECT_EQ(statusOf(other_), orStreamCaptureStatusActive);
  kernel(other_); // 1
  kernel(stream_); // 2
  order(other_, stream_);
  kernel(stream_); // 3
  const Graph graph = end(stream_);
  EXPECT_EQ(edgesOf(graph), (Edges{{0, 1}, {0, 2}, {2, 3}, {1, 3}}));
  EXPECT_EQ(statusOf(other_), orStreamCaptureStatusNone);
}

TEST_F(CaptureTest, AForkBeforeAnyWorkHasNoEdges) {
  begin(stream_);
  order(stream_, other_);
  kernel(other_);
  kernel(stream_);
  order(other_, stream_);
  EXPECT_EQ(edgesOf(end(stream_)), Edges{});
}

TEST_F(CaptureTest, TheEventMayBeDestroyedAndRecordedAgain) {
  begin(stream_);
  const Event event;
  for (int i = 0; i < 2; ++i) {
    kernel(stream_);
    ASSERT_EQ(orEventRecord(event, stream_), orSuccess);
    ASSERT_EQ(orStreamWaitEvent(other_, event, 0), orSuccess);
    kernel(other_);
  }
  order(other_, stream_);
  EXPECT_EQ(edgesOf(end(stream_)), (Edges{{0, 1}, {0, 2}, {1, 3}, {2, 3}}));
}

TEST_F(CaptureTest, UnjoinedWorkEndsTheCaptureWithoutAGraph) {
  begin(stream_);
  kernel(stream_);
  order(stream_, other_);
  kernel(other_);
  EXPECT_EQ(endError(stream_), orErrorStreamCaptureUnjoined);
  EXPECT_EQ(statusOf(stream_), orStreamCaptureStatusNone);
  EXPECT_EQ(statusOf(other_), orStreamCaptureStatusNone);
  kernel(other_);
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
}

TEST_F(CaptureTest, AStreamWithoutWorkNeedsNoJoin) {
  begin(stream_);
  kernel(stream_);
  order(stream_, other_);
  EXPECT_EQ(nodeCount(end(stream_)), 1u);
  EXPECT_EQ(statusOf(other_), orStreamCaptureStatusNone);
}

TEST_F(CaptureTest, TheCaptureEndsInTheStreamInWhichItBegan) {
  begin(stream_);
  order(stream_, other_);
  EXPECT_EQ(endError(other_), orErrorStreamCaptureUnmatched);
  kernel(stream_);
  EXPECT_EQ(nodeCount(end(stream_)), 1u);
}

TEST_F(CaptureTest, AJoinedStreamMayBeDestroyedBeforeTheEnd) {
  begin(stream_);
  kernel(stream_);
  {
    const Stream third;
    order(stream_, third);
    kernel(third);
    order(third, stream_);
  }
  EXPECT_EQ(nodeCount(end(stream_)), 2u);
}

TEST_F(CaptureTest, DestroyingTheFirstStreamEndsTheCapture) {
  auto token = std::make_shared<int>();
  {
    const Stream third;
    begin(third);
    ASSERT_EQ(orLaunchKernel(third, [token] {}), orSuccess);
    order(third, other_);
  }
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(statusOf(other_), orStreamCaptureStatusNone);
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
}

TEST_F(CaptureTest, TwoCapturesGoOnSideBySide) {
  begin(stream_);
  begin(other_);
  kernel(stream_);
  kernel(other_);
  kernel(other_);
  EXPECT_EQ(nodeCount(end(stream_)), 1u);
  EXPECT_EQ(nodeCount(end(other_)), 2u);
}

TEST_F(CaptureTest, OtherStreamsRunTheirWorkMeanwhile) {
  begin(stream_);
  bool ran = false;
  ASSERT_EQ(orLaunchKernel(other_, [&] { ran = true; }), orSuccess);
  ASSERT_EQ(orLaunchKernel(defaultStream(), [] {}), orSuccess);
  ASSERT_EQ(orStreamSynchronize(other_), orSuccess);
  EXPECT_TRUE(ran);
  EXPECT_EQ(nodeCount(end(stream_)), 0u);
}

TEST_F(CaptureTest, AStreamOfAnotherDeviceTakesPart) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  std::vector<int> ran;
  {
    const Stream far;
    const Event done;
    ASSERT_EQ(orSetDevice(0), orSuccess);
    begin(stream_);
    ASSERT_EQ(orLaunchKernel(stream_, [&] { ran.push_back(1); }), orSuccess);
    order(stream_, far);
    ASSERT_EQ(orLaunchKernel(far, [&] { ran.push_back(2); }), orSuccess);
    ASSERT_EQ(orEventRecord(done, far), orSuccess);
    ASSERT_EQ(orStreamWaitEvent(stream_, done, 0), orSuccess);
    const Graph graph = end(stream_);
    const Exec exec(graph);
    ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
    ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  }
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

// --- threads ------------------------------------------------------------------

TEST_F(CaptureTest, AnotherThreadMayLaunchIntoTheCapture) {
  begin(stream_);
  std::thread([&] { kernel(stream_); }).join();
  EXPECT_EQ(nodeCount(end(stream_)), 1u);
}

TEST_F(CaptureTest, OnlyARelaxedCaptureIsEndedByAnotherThread) {
  for (const auto mode :
       {orStreamCaptureModeGlobal, orStreamCaptureModeThreadLocal}) {
    begin(stream_, mode);
    std::thread([&] {
      EXPECT_EQ(endError(stream_), orErrorStreamCaptureWrongThread);
    }).join();
    end(stream_);
  }
  begin(stream_, orStreamCaptureModeRelaxed);
  std::thread([&] { end(stream_); }).join();
  EXPECT_EQ(statusOf(stream_), orStreamCaptureStatusNone);
}

TEST_F(CaptureTest, ThreadsCaptureAtTheSameTime) {
  constexpr int kThreads = 4, kRounds = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      const Stream stream, side;
      int count = 0;
      for (int round = 0; round < kRounds; ++round) {
        const Graph graph = captured(
            stream,
            [&] {
              ASSERT_EQ(orLaunchKernel(stream, [&] { ++count; }), orSuccess);
              order(stream, side);
              ASSERT_EQ(orLaunchKernel(side, [&] { ++count; }), orSuccess);
              order(side, stream);
            },
            static_cast<orStreamCaptureMode>(t % 3));
        const Exec exec(graph);
        ASSERT_EQ(orGraphLaunch(exec, stream), orSuccess);
        ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
      }
      EXPECT_EQ(count, 2 * kRounds);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// --- a capture leaves nothing behind --------------------------------------------

/// What a process can leak: bytes of the heap, mappings and open files.
struct Holdings {
  size_t heap =
      mallinfo2().uordblks; // 0 under sanitizers, which count themselves
  std::ptrdiff_t mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  }();
  std::ptrdiff_t files =
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
};

TEST_F(CaptureTest, AThousandCapturesLeaveNothingBehind) {
  auto token = std::make_shared<int>();
  const Event event;
  orGraph_t first = nullptr;
  const auto captureAndDestroy = [&] {
    begin(stream_);
    ASSERT_EQ(orLaunchKernel(stream_, [token] { ++*token; }), orSuccess);
    ASSERT_EQ(orEventRecord(event, stream_), orSuccess);
    ASSERT_EQ(orStreamWaitEvent(other_, event, 0), orSuccess);
    ASSERT_EQ(orLaunchKernel(other_, [token] { ++*token; }), orSuccess);
    ASSERT_EQ(orEventRecord(event, other_), orSuccess);
    ASSERT_EQ(orStreamWaitEvent(stream_, event, 0), orSuccess);
    orGraph_t graph = nullptr;
    ASSERT_EQ(orStreamEndCapture(stream_, &graph), orSuccess);
    first = first ? first : graph;
    // The handle's place is taken again: only the generation differs.
    constexpr uintptr_t kPlace = 0xffffffff;
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(graph) & kPlace,
        reinterpret_cast<uintptr_t>(first) & kPlace);
    EXPECT_EQ(token.use_count(), 3);
    {
      const Exec exec(graph);
      ASSERT_EQ(orGraphDestroy(graph), orSuccess);
      ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
      ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
    }
    EXPECT_EQ(token.use_count(), 1);
  };
  for (int i = 0; i < 10; ++i) {
    captureAndDestroy();
  }
  const Holdings before;
  for (int i = 0; i < 1000; ++i) {
    captureAndDestroy();
  }
  const Holdings after;
  // Far less than one for each capture; sanitizers map memory of their own.
  constexpr size_t kBytes = 4096;
  constexpr std::ptrdiff_t kMappings = 16;
  EXPECT_LE(after.heap, before.heap + kBytes);
  EXPECT_LE(after.mappings, before.mappings + kMappings);
  EXPECT_EQ(after.files, before.files);
}

} // namespace
