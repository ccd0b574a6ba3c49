#include "support.h"

#include <atomic>
#include <thread>

#include <sys/syscall.h>
#include <unistd.h>

namespace openreg::testing {
namespace {

using Records = std::vector<orActivityRecord>;

void append(const orActivityRecord* records, size_t count, void* userData) {
  auto* to = static_cast<Records*>(userData);
  to->insert(to->end(), records, records + count);
}

Records flush(size_t* dropped = nullptr) {
  Records records;
  EXPECT_EQ(orActivityFlush(append, &records, dropped), orSuccess);
  return records;
}

Records ofKind(const Records& records, orActivityKind kind) {
  Records found;
  for (const orActivityRecord& record : records) {
    if (record.kind == kind) {
      found.push_back(record);
    }
  }
  return found;
}

Records ofName(const Records& records, const std::string& name) {
  Records found;
  for (const orActivityRecord& record : records) {
    if (record.name == name) {
      found.push_back(record);
    }
  }
  return found;
}

uint64_t thisThread() {
  return static_cast<uint64_t>(syscall(SYS_gettid));
}

const orLaunchConfig kNamed{"named_kernel", orLaunchDefault};

class ActivityTest : public ::testing::Test {
 protected:
  void enable(
      unsigned kinds,
      size_t capacity = 1000,
      orActivityCallback callback = nullptr,
      void* userData = nullptr) {
    ASSERT_EQ(
        orActivityEnableTracing(kinds, capacity, callback, userData),
        orSuccess);
  }
  // Ends tracing first, so that the reading of the records is not in them.
  Records finish() {
    EXPECT_EQ(orDeviceSynchronize(), orSuccess);
    EXPECT_EQ(orActivityDisableTracing(), orSuccess);
    return flush();
  }
  void launchNamed(int times = 1) {
    for (int i = 0; i < times; ++i) {
      ASSERT_EQ(orLaunchKernelEx(&kNamed, stream_, [] {}), orSuccess);
    }
  }
  void TearDown() override {
    orActivityDisableTracing();
    while (orActivityPopExternalCorrelationId(nullptr) == orSuccess) {
    }
    flush();
  }
  unsigned long long id() const {
    unsigned long long id = 0;
    EXPECT_EQ(orStreamGetId(stream_, &id), orSuccess);
    return id;
  }

  Stream stream_;
};

TEST_F(ActivityTest, RefusesBadArguments) {
  for (unsigned kinds : {0u, 64u, 65u}) {
    EXPECT_EQ(
        orActivityEnableTracing(kinds, 10, nullptr, nullptr),
        orErrorInvalidValue);
    EXPECT_TRUE(detailHas(std::to_string(kinds)));
  }
  EXPECT_EQ(
      orActivityEnableTracing(orActivityKernel, 0, nullptr, nullptr),
      orErrorInvalidValue);
  EXPECT_EQ(orActivityFlush(nullptr, nullptr, nullptr), orErrorInvalidValue);
  EXPECT_EQ(orActivityPushExternalCorrelationId(0), orErrorInvalidValue);
  EXPECT_NE(lastDetail(), "");
}

TEST_F(ActivityTest, IsEnabledAndDisabledOnceAtATime) {
  EXPECT_EQ(orActivityDisableTracing(), orErrorNotPermitted);
  enable(orActivityKernel);
  EXPECT_EQ(
      orActivityEnableTracing(orActivityKernel, 10, nullptr, nullptr),
      orErrorNotPermitted);
  EXPECT_EQ(orActivityDisableTracing(), orSuccess);
  EXPECT_EQ(orActivityDisableTracing(), orErrorNotPermitted);
  EXPECT_NE(lastDetail(), "");
}

TEST_F(ActivityTest, CallsAboutRecordsLeaveNone) {
  enable(orActivityRuntime);
  ASSERT_EQ(orActivityPushExternalCorrelationId(1), orSuccess);
  ASSERT_EQ(orActivityPopExternalCorrelationId(nullptr), orSuccess);
  ASSERT_EQ(orActivityDisableTracing(), orSuccess);
  EXPECT_TRUE(flush().empty());
}

TEST_F(ActivityTest, NamesOfCopiesTellBothSides) {
  void* device = nullptr;
  void* pinned = nullptr;
  char pageable[8] = {};
  ASSERT_EQ(orMalloc(&device, 8), orSuccess);
  ASSERT_EQ(orMallocHost(&pinned, 8), orSuccess);
  const auto copy = [&](void* to, const void* from, orMemcpyKind kind) {
    ASSERT_EQ(orMemcpyAsync(to, from, 8, kind, stream_), orSuccess);
  };
  enable(orActivityMemcpy | orActivityMemset);
  copy(device, pageable, orMemcpyHostToDevice);
  copy(device, pinned, orMemcpyHostToDevice);
  copy(device, device, orMemcpyDeviceToDevice);
  copy(pageable, device, orMemcpyDeviceToHost);
  copy(pinned, device, orMemcpyDeviceToHost);
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  ASSERT_EQ(orMemcpy(device, pinned, 8, orMemcpyHostToDevice), orSuccess);
  ASSERT_EQ(orMemsetAsync(device, 0, 8, stream_), orSuccess);
  std::vector<std::string> names;
  for (const orActivityRecord& record : finish()) {
    names.emplace_back(record.name);
  }
  const std::vector<std::string> expected = {
      "Memcpy HtoD (Pageable -> Device)",
      "Memcpy HtoD (Pinned -> Device)",
      "Memcpy DtoD (Device -> Device)",
      "Memcpy DtoH (Device -> Pageable)",
      "Memcpy DtoH (Device -> Pinned)",
      "Memcpy HtoD (Pinned -> Device)",
      "Memset (Device)"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(orFree(device), orSuccess);
  EXPECT_EQ(orFreeHost(pinned), orSuccess);
}

TEST_F(ActivityTest, RecordsNothingWhileItIsOff) {
  launchNamed();
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  enable(OPENREG_ACTIVITY_ALL);
  ASSERT_EQ(orActivityDisableTracing(), orSuccess);
  launchNamed();
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(ofName(flush(), "named_kernel").size(), 0u);
}

TEST_F(ActivityTest, RecordsOnlyTheKindsAskedFor) {
  DeviceArray<char> array(16);
  enable(orActivityMemset);
  launchNamed();
  ASSERT_EQ(orMemsetAsync(array.data(), 1, 16, stream_), orSuccess);
  const Records records = finish();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kind, orActivityMemset);
}

TEST_F(ActivityTest, AKernelHasItsNamePlaceTimeAndThread) {
  enable(orActivityKernel);
  std::atomic<uint64_t> thread = 0;
  auto kernel = [&thread] { thread = thisThread(); };
  ASSERT_EQ(orLaunchKernelEx(&kNamed, stream_, kernel), orSuccess);
  const Records records = finish();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kind, orActivityKernel);
  EXPECT_STREQ(records[0].name, "named_kernel");
  EXPECT_EQ(records[0].device, 0);
  EXPECT_EQ(records[0].stream, id());
  EXPECT_GT(records[0].start, 0u);
  EXPECT_LE(records[0].start, records[0].end);
  EXPECT_EQ(records[0].thread, thread);
  EXPECT_NE(records[0].correlation, 0u);
  EXPECT_EQ(records[0].externalCorrelation, 0u);
  EXPECT_EQ(records[0].bytes, 0u);
}

TEST_F(ActivityTest, SmallWorkIsRecordedWhereverItRuns) {
  const orLaunchConfig small{"small_kernel", orLaunchSmall};
  enable(orActivityKernel | orActivityRuntime);
  ASSERT_EQ(orLaunchKernelEx(&small, stream_, [] {}), orSuccess);
  const Records records = finish();
  const Records kernels = ofKind(records, orActivityKernel);
  const Records calls = ofName(records, "orLaunchKernel");
  ASSERT_EQ(kernels.size(), 1u);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_STREQ(kernels[0].name, "small_kernel");
  EXPECT_EQ(kernels[0].stream, id());
  EXPECT_EQ(kernels[0].correlation, calls[0].correlation);
}

TEST_F(ActivityTest, TheDeviceIsThatOfTheStream) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  Stream there;
  enable(orActivityKernel);
  ASSERT_EQ(orLaunchKernelEx(&kNamed, there, [] {}), orSuccess);
  const Records records = finish();
  ASSERT_EQ(orSetDevice(0), orSuccess);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].device, 1);
}

TEST_F(ActivityTest, CopiesHaveTheirBytesAndKind) {
  DeviceArray<char> a(64), b(64);
  PinnedArray<char> h(64, 0);
  enable(orActivityMemcpy);
  const struct {
    void* to;
    const void* from;
    size_t bytes;
    orMemcpyKind kind;
  } copies[] = {
      {a.data(), h.data(), 64, orMemcpyHostToDevice},
      {b.data(), a.data(), 32, orMemcpyDeviceToDevice},
      {h.data(), b.data(), 16, orMemcpyDeviceToHost},
  };
  for (const auto& copy : copies) {
    ASSERT_EQ(
        orMemcpyAsync(copy.to, copy.from, copy.bytes, copy.kind, stream_),
        orSuccess);
  }
  ASSERT_EQ(
      orMemcpyAsync(h.data(), a.data(), 8, orMemcpyDefault, stream_),
      orSuccess);
  ASSERT_EQ(
      orMemcpy2DAsync(
          a.data(), 8, h.data(), 8, 4, 3, orMemcpyHostToDevice, stream_),
      orSuccess);
  const Records records = finish();
  ASSERT_EQ(records.size(), 5u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(records[i].kind, orActivityMemcpy);
    EXPECT_EQ(records[i].bytes, copies[i].bytes);
    EXPECT_EQ(records[i].copyKind, copies[i].kind);
    EXPECT_EQ(records[i].stream, id());
    EXPECT_NE(records[i].name, nullptr);
  }
  EXPECT_EQ(records[3].copyKind, orMemcpyDeviceToHost) << "it was inferred";
  EXPECT_EQ(records[4].bytes, 12u);
}

TEST_F(ActivityTest, SynchronousCopiesAndSetsAreRecordedToo) {
  DeviceArray<char> array(64);
  char host[64] = {};
  enable(orActivityMemcpy | orActivityMemset);
  ASSERT_EQ(orMemset(array.data(), 7, 64), orSuccess);
  ASSERT_EQ(orMemcpy(host, array.data(), 48, orMemcpyDeviceToHost), orSuccess);
  const Records records = finish();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].kind, orActivityMemset);
  EXPECT_EQ(records[0].bytes, 64u);
  EXPECT_EQ(records[1].kind, orActivityMemcpy);
  EXPECT_EQ(records[1].bytes, 48u);
  EXPECT_EQ(host[47], 7);
}

TEST_F(ActivityTest, HostFunctionsAreAKindOfTheirOwn) {
  enable(orActivityHostFunc | orActivityKernel);
  ASSERT_EQ(orLaunchHostFunc(stream_, [](void*) {}, nullptr), orSuccess);
  const Records records = finish();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kind, orActivityHostFunc);
  EXPECT_EQ(records[0].stream, id());
}

// Whether a given call has to wait is up to the machine, so it is made until it
// had to.
TEST_F(ActivityTest, WaitsOfTheHostAreRecorded) {
  enable(orActivitySync | orActivityRuntime, 100'000);
  Records calls, waits;
  for (int tries = 0; waits.empty() && tries < 1000; ++tries) {
    auto spin = [] {
      for (std::atomic<int> i = 0; i < 100'000; ++i) {
      }
    };
    ASSERT_EQ(orLaunchKernel(stream_, spin), orSuccess);
    ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
    const Records records = flush();
    calls = ofName(records, "orStreamSynchronize");
    waits = ofKind(records, orActivitySync);
  }
  ASSERT_EQ(calls.size(), 1u);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].stream, id());
  EXPECT_EQ(waits[0].thread, thisThread());
  EXPECT_EQ(waits[0].correlation, calls[0].correlation);
  EXPECT_LE(calls[0].start, waits[0].start);
  EXPECT_LE(waits[0].end, calls[0].end);
}

TEST_F(ActivityTest, WaitsOfAStreamForAnEventAreRecorded) {
  Stream producer;
  Event event;
  enable(orActivitySync);
  {
    Gate gate(producer);
    ASSERT_EQ(orEventRecord(event, producer), orSuccess);
    ASSERT_EQ(orStreamWaitEvent(stream_, event, 0), orSuccess);
  }
  while (orStreamQuery(stream_) == orErrorNotReady) {
    std::this_thread::yield();
  }
  ASSERT_EQ(orActivityDisableTracing(), orSuccess);
  const Records records = flush();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kind, orActivitySync);
  EXPECT_EQ(records[0].stream, id());
  EXPECT_NE(records[0].thread, thisThread());
}

TEST_F(ActivityTest, RecordingATimeIsNoWait) {
  Event event(orEventEnableTiming);
  enable(orActivitySync);
  ASSERT_EQ(orEventRecord(event, stream_), orSuccess);
  while (orEventQuery(event) == orErrorNotReady) {
    std::this_thread::yield();
  }
  ASSERT_EQ(orActivityDisableTracing(), orSuccess);
  EXPECT_EQ(flush().size(), 0u);
}

TEST_F(ActivityTest, AnApiCallAndItsWorkShareACorrelation) {
  enable(orActivityKernel | orActivityRuntime);
  launchNamed(3);
  const Records records = finish();
  const Records kernels = ofKind(records, orActivityKernel);
  const Records calls = ofName(records, "orLaunchKernel");
  ASSERT_EQ(kernels.size(), 3u);
  ASSERT_EQ(calls.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(kernels[i].correlation, calls[i].correlation);
    EXPECT_EQ(calls[i].thread, thisThread());
    EXPECT_LE(calls[i].start, calls[i].end);
    EXPECT_LE(calls[i].start, kernels[i].start);
  }
  EXPECT_NE(calls[0].correlation, calls[1].correlation);
  EXPECT_EQ(ofName(records, "orDeviceSynchronize").size(), 1u);
}

TEST_F(ActivityTest, ExternalIdsNestAndReachTheWork) {
  enable(orActivityKernel);
  launchNamed();
  ASSERT_EQ(orActivityPushExternalCorrelationId(7), orSuccess);
  launchNamed();
  ASSERT_EQ(orActivityPushExternalCorrelationId(8), orSuccess);
  launchNamed();
  uint64_t top = 0;
  ASSERT_EQ(orActivityPopExternalCorrelationId(&top), orSuccess);
  EXPECT_EQ(top, 8u);
  launchNamed();
  ASSERT_EQ(orActivityPopExternalCorrelationId(&top), orSuccess);
  EXPECT_EQ(top, 7u);
  EXPECT_EQ(orActivityPopExternalCorrelationId(&top), orErrorNotPermitted);
  EXPECT_EQ(orActivityPopExternalCorrelationId(nullptr), orErrorNotPermitted);
  launchNamed();
  const Records records = finish();
  ASSERT_EQ(records.size(), 5u);
  const uint64_t expected[] = {0, 7, 8, 7, 0};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(records[i].externalCorrelation, expected[i]);
  }
}

TEST_F(ActivityTest, ExternalIdsBelongToTheirThread) {
  enable(orActivityKernel | orActivityRuntime);
  ASSERT_EQ(orActivityPushExternalCorrelationId(7), orSuccess);
  std::thread([this] {
    EXPECT_EQ(orActivityPopExternalCorrelationId(nullptr), orErrorNotPermitted);
    launchNamed();
  }).join();
  launchNamed();
  const Records records = finish();
  for (const Records& found :
       {ofKind(records, orActivityKernel), ofName(records, "orLaunchKernel")}) {
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].externalCorrelation, 0u);
    EXPECT_EQ(found[1].externalCorrelation, 7u);
  }
}

} // namespace
} // namespace openreg::testing
