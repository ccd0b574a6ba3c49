// Events and activity records of launches of graphs.
#include "graph_support.h"

#include <map>
#include <set>

using namespace openreg::testing;

namespace {

class GraphEventTest : public ::testing::Test {
 protected:
  Stream stream_, other_;
};

// --- events of outside ------------------------------------------------------------

TEST_F(GraphEventTest, ALaunchRecordsAnExternalEvent) {
  const Event start(orEventEnableTiming), end(orEventEnableTiming);
  const Graph graph = captured(stream_, [&] {
    const auto spend = [] {
      const auto until =
          std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
      while (std::chrono::steady_clock::now() < until) {
      }
    };
    ASSERT_EQ(
        orEventRecordWithFlags(start, stream_, orEventRecordExternal),
        orSuccess);
    ASSERT_EQ(orLaunchKernel(stream_, spend), orSuccess);
    ASSERT_EQ(
        orEventRecordWithFlags(end, stream_, orEventRecordExternal), orSuccess);
    ASSERT_EQ(orLaunchKernel(stream_, spend), orSuccess);
  });
  EXPECT_EQ(
      typesOf(graph),
      (std::vector<orGraphNodeType>{
          orGraphNodeTypeEventRecord,
          orGraphNodeTypeKernel,
          orGraphNodeTypeEventRecord,
          orGraphNodeTypeKernel}));
  float milliseconds = 0;
  EXPECT_EQ(
      orEventElapsedTime(&milliseconds, start, end), orErrorInvalidHandle);
  const Exec exec(graph);
  Gate gate(stream_);
  ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
  EXPECT_EQ(orEventQuery(end), orErrorNotReady);
  gate.open();
  ASSERT_EQ(orEventSynchronize(end), orSuccess);
  ASSERT_EQ(orEventElapsedTime(&milliseconds, start, end), orSuccess);
  EXPECT_GE(milliseconds, 2.0f);
}

TEST_F(GraphEventTest, ALaunchWaitsForTheLatestRecordOfAnExternalEvent) {
  const Event event;
  std::vector<int> ran;
  const Graph graph = captured(stream_, [&] {
    ASSERT_EQ(
        orStreamWaitEvent(stream_, event, orEventWaitExternal), orSuccess);
    ASSERT_EQ(orLaunchKernel(stream_, [&] { ran.push_back(2); }), orSuccess);
  });
  EXPECT_EQ(typesOf(graph)[0], orGraphNodeTypeWaitEvent);
  const Exec exec(graph);
  ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess); // not recorded yet
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  Gate gate(other_);
  ASSERT_EQ(orLaunchKernel(other_, [&] { ran.push_back(1); }), orSuccess);
  ASSERT_EQ(orEventRecord(event, other_), orSuccess);
  ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
  EXPECT_EQ(orStreamQuery(stream_), orErrorNotReady);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(ran, (std::vector<int>{2, 1, 2}));
}

TEST_F(GraphEventTest, ExternalFlagsAreForCapturesOnly) {
  const Event event;
  EXPECT_EQ(
      orEventRecordWithFlags(event, stream_, orEventRecordExternal),
      orErrorInvalidValue);
  EXPECT_EQ(
      orStreamWaitEvent(stream_, event, orEventWaitExternal),
      orErrorInvalidValue);
  EXPECT_EQ(orEventRecordWithFlags(event, stream_, 2), orErrorInvalidValue);
  EXPECT_EQ(
      orEventRecordWithFlags(event, stream_, orEventRecordDefault), orSuccess);
  EXPECT_EQ(orEventSynchronize(event), orSuccess);
}

TEST_F(GraphEventTest, ADestroyedEventIsRecognisedByTheLaunch) {
  orEvent_t event = nullptr;
  for (const bool record : {false, true}) {
    ASSERT_EQ(orEventCreate(&event), orSuccess);
    const Graph graph = captured(stream_, [&] {
      ASSERT_EQ(
          record ? orEventRecordWithFlags(event, stream_, orEventRecordExternal)
                 : orStreamWaitEvent(stream_, event, orEventWaitExternal),
          orSuccess);
    });
    const Exec exec(graph);
    ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
    ASSERT_EQ(orEventDestroy(event), orSuccess);
    EXPECT_EQ(orGraphLaunch(exec, stream_), orErrorInvalidHandle);
  }
}

TEST_F(GraphEventTest, AWaitForACapturedEventInvalidatesItsCapture) {
  const Event event;
  const Graph graph = captured(stream_, [&] {
    ASSERT_EQ(
        orStreamWaitEvent(stream_, event, orEventWaitExternal), orSuccess);
  });
  const Exec exec(graph);
  ASSERT_EQ(
      orStreamBeginCapture(other_, orStreamCaptureModeRelaxed), orSuccess);
  ASSERT_EQ(orEventRecord(event, other_), orSuccess);
  EXPECT_EQ(orGraphLaunch(exec, stream_), orErrorCapturedEvent);
  expectInvalidated(other_);
  EXPECT_EQ(orGraphLaunch(exec, stream_), orErrorInvalidValue);
}

TEST_F(GraphEventTest, RecordsComeToPassThoughANodeFails) {
  const Event timed(orEventEnableTiming), shared(orEventInterprocess);
  const Graph graph = captured(stream_, [&] {
    ASSERT_EQ(
        orLaunchKernel(
            stream_, [] { orKernelFail(orErrorAssert, "on purpose"); }),
        orSuccess);
    for (const orEvent_t event : {orEvent_t{timed}, orEvent_t{shared}}) {
      ASSERT_EQ(
          orEventRecordWithFlags(event, stream_, orEventRecordExternal),
          orSuccess);
    }
  });
  const Exec exec(graph);
  ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream_), orErrorAssert);
  EXPECT_EQ(orEventQuery(timed), orSuccess);
  EXPECT_EQ(orEventQuery(shared), orSuccess);
  ASSERT_EQ(orDeviceReset(), orSuccess);
}

// --- activity records ----------------------------------------------------------------

struct Records {
  std::vector<orActivityRecord> all;

  std::vector<orActivityRecord> of(orActivityKind kind) const {
    std::vector<orActivityRecord> result;
    for (const orActivityRecord& record : all) {
      if (record.kind == kind) {
        result.push_back(record);
      }
    }
    return result;
  }
};

template <class Body>
Records traced(Body body) {
  EXPECT_EQ(
      orActivityEnableTracing(OPENREG_ACTIVITY_ALL, 10'000, nullptr, nullptr),
      orSuccess);
  body();
  EXPECT_EQ(orActivityDisableTracing(), orSuccess);
  Records records;
  EXPECT_EQ(
      orActivityFlush(
          [](const orActivityRecord* found, size_t count, void* data) {
            auto& list = static_cast<Records*>(data)->all;
            list.insert(list.end(), found, found + count);
          },
          &records,
          nullptr),
      orSuccess);
  return records;
}

TEST_F(GraphEventTest, EveryNodeOfALaunchIsRecordedWithItsGraph) {
  const DeviceArray<char> array(64);
  for (const unsigned flags : {orLaunchDefault, orLaunchSmall}) {
    const Graph graph = captured(stream_, [&] {
      const orLaunchConfig config{"first", flags};
      ASSERT_EQ(orLaunchKernelEx(&config, stream_, [] {}), orSuccess);
      ASSERT_EQ(orMemsetAsync(array.data(), 0, 32, stream_), orSuccess);
      ASSERT_EQ(
          orMemcpyAsync(
              array.data() + 32,
              array.data(),
              16,
              orMemcpyDeviceToDevice,
              stream_),
          orSuccess);
    });
    const Exec exec(graph);
    const Records records = traced([&] {
      ASSERT_EQ(orActivityPushExternalCorrelationId(77), orSuccess);
      ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
      ASSERT_EQ(orGraphLaunch(exec, stream_), orSuccess);
      ASSERT_EQ(orActivityPopExternalCorrelationId(nullptr), orSuccess);
      ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
    });
    std::vector<uint64_t> launches;
    for (const orActivityRecord& call : records.of(orActivityRuntime)) {
      if (std::string(call.name) == "orGraphLaunch") {
        launches.push_back(call.correlation);
      }
    }
    ASSERT_EQ(launches.size(), 2u);
    std::set<uint64_t> nodes;
    unsigned long long stream = 0;
    ASSERT_EQ(orStreamGetId(stream_, &stream), orSuccess);
    const std::pair<orActivityKind, size_t> expected[] = {
        {orActivityKernel, 0}, {orActivityMemset, 32}, {orActivityMemcpy, 16}};
    for (const auto& [kind, bytes] : expected) {
      const auto found = records.of(kind);
      ASSERT_EQ(found.size(), 2u);
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(found[i].correlation, launches[i]);
        EXPECT_EQ(found[i].externalCorrelation, 77u);
        EXPECT_EQ(found[i].bytes, bytes);
        EXPECT_EQ(found[i].stream, stream);
        EXPECT_EQ(found[i].device, 0);
        EXPECT_NE(found[i].graph, 0u);
        EXPECT_LE(found[i].start, found[i].end);
        nodes.insert(found[i].graphNode);
      }
    }
    EXPECT_EQ(nodes.size(), 3u);
    EXPECT_EQ(nodes.count(0), 0u);
    EXPECT_EQ(records.of(orActivityMemcpy)[0].copyKind, orMemcpyDeviceToDevice);
  }
}

TEST_F(GraphEventTest, OtherWorkHasNoGraph) {
  const Records records = traced([&] {
    ASSERT_EQ(orLaunchKernel(stream_, [] {}), orSuccess);
    ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  });
  const auto kernels = records.of(orActivityKernel);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].graph, 0u);
  EXPECT_EQ(kernels[0].graphNode, 0u);
}

TEST_F(GraphEventTest, ACaptureLeavesRecordsOfCallsOnly) {
  const Records records = traced([&] {
    const Graph graph = captured(
        stream_, [&] { ASSERT_EQ(orLaunchKernel(stream_, [] {}), orSuccess); });
  });
  EXPECT_TRUE(records.of(orActivityKernel).empty());
  EXPECT_FALSE(records.of(orActivityRuntime).empty());
}

} // namespace
