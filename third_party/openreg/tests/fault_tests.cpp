// Fault plans: what they accept, where they strike, and what they count.
#include "support.h"

#include <chrono>

namespace openreg::testing {
namespace {

class FaultTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(orFaultClear(), orSuccess);
    EXPECT_EQ(orDeviceReset(), orSuccess);
    orGetLastError();
  }

  static unsigned long long count(const char* kind) {
    unsigned long long n = 0;
    EXPECT_EQ(orFaultCount(kind, &n), orSuccess) << orGetLastErrorDetail();
    return n;
  }

  static orError_t launch(orStream_t stream, const char* name, int* runs) {
    const orLaunchConfig config{name, orLaunchSmall};
    return orLaunchKernelEx(&config, stream, [runs] { ++*runs; });
  }

  static std::vector<int> flipped(const char* plan) {
    DeviceArray<int> array(64);
    EXPECT_EQ(orMemset(array.data(), 0, array.bytes()), orSuccess);
    EXPECT_EQ(orFaultPlan(plan), orSuccess);
    int runs = 0;
    EXPECT_EQ(launch(defaultStream(), "kernel", &runs), orSuccess);
    const orFaultRange range{array.data(), array.bytes()};
    EXPECT_EQ(orFaultFlipOutput(&range, 1, defaultStream()), orSuccess);
    EXPECT_EQ(orFaultFlipOutput(&range, 1, defaultStream()), orSuccess);
    EXPECT_EQ(orFaultClear(), orSuccess);
    return array.read();
  }
};

// --- the text -----------------------------------------------------------------

TEST_F(FaultTest, PlansAreAccepted) {
  for (const char* plan :
       {"",
        " ; ",
        "oom@alloc:37",
        "oom@alloc:1:device=1",
        "oom@alloc:37; error@op:aten::mm:5; kernel-error@op:aten::add.Tensor:*;"
        "lost@launch:1000; slow@copy:*:10ms; flip@op:aten::mm:3;"
        "drop-rank:2@collective:9; error@capture:1; seed=7",
        "slow@launch:5%:1.5us; error@copy:0.5%; lost@collective:2"}) {
    EXPECT_EQ(orFaultPlan(plan), orSuccess) << orGetLastErrorDetail();
  }
}

TEST_F(FaultTest, AMalformedPlanIsRefusedAndNamesThePart) {
  struct Case {
    const char* plan;
    const char* part;
    const char* accepted;
  };
  for (const Case& refused : std::initializer_list<Case>{
           {"oom", "'oom'", "KIND@SITE:WHEN"},
           {"boom@alloc:1", "'boom'", "oom, error"},
           {"oom@malloc:1", "'malloc'", "alloc, launch"},
           {"oom@alloc", "'alloc'", "from 1 on"},
           {"oom@alloc:0", "'0'", "from 1 on"},
           {"oom@alloc:-1", "'-1'", "from 1 on"},
           {"oom@alloc:x", "'x'", "from 1 on"},
           {"oom@alloc:101%", "'101%'", "5%"},
           {"oom@launch:1", "'oom@launch'", "error, lost, slow, flip"},
           {"flip@alloc:1", "'flip@alloc'", "oom, lost"},
           {"error@op:5", "'op'", "op:NAME"},
           {"error@launch:mm:5", "'launch:mm'", "op:NAME"},
           {"slow@copy:1", "'1'", "10ms"},
           {"slow@copy:1:10", "'10'", "10ms"},
           {"slow@copy:1:61s", "'61s'", "60s"},
           {"drop-rank@collective:1", "'drop-rank'", "drop-rank:2"},
           {"drop-rank:x@collective:1", "'drop-rank:x'", "drop-rank:2"},
           {"oom:1@alloc:1", "'oom:1'", "drop-rank"},
           {"oom@alloc:1:device=x", "'x'", "index of a device"},
           {"seed=x", "'x'", "2^64"},
           {"oom@alloc:1; boom@alloc:1", "'boom@alloc:1'", "oom, error"}}) {
    SCOPED_TRACE(refused.plan);
    EXPECT_EQ(orFaultPlan(refused.plan), orErrorInvalidValue);
    EXPECT_TRUE(detailHas(refused.part)) << orGetLastErrorDetail();
    EXPECT_TRUE(detailHas(refused.accepted)) << orGetLastErrorDetail();
  }
}

TEST_F(FaultTest, ARefusedPlanLeavesTheOneBefore) {
  ASSERT_EQ(orFaultPlan("oom@alloc:1"), orSuccess);
  EXPECT_EQ(orFaultPlan("nonsense"), orErrorInvalidValue);
  void* memory = nullptr;
  EXPECT_EQ(orMalloc(&memory, 16), orErrorMemoryAllocation);
}

TEST_F(FaultTest, BadArgumentsAreRefused) {
  unsigned long long n = 0;
  orFault fault{};
  int two = 2;
  EXPECT_EQ(orFaultPlan(nullptr), orErrorInvalidValue);
  EXPECT_EQ(orFaultCount(nullptr, &n), orErrorInvalidValue);
  EXPECT_EQ(orFaultCount("oom", nullptr), orErrorInvalidValue);
  EXPECT_EQ(orFaultCount("op", &n), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("'op'"));
  EXPECT_EQ(
      orFaultAsk(orFaultSiteAlloc, nullptr, 0, -1, nullptr),
      orErrorInvalidValue);
  EXPECT_EQ(
      orFaultAsk(static_cast<orFaultSite>(5), nullptr, 0, -1, &fault),
      orErrorInvalidValue);
  EXPECT_EQ(orThreadExchangeFaults(nullptr), orErrorInvalidValue);
  EXPECT_EQ(orFaultGetFlag(nullptr), orErrorInvalidValue);
  EXPECT_EQ(orThreadExchangeFaults(&two), orErrorInvalidValue);
}

// --- allocations --------------------------------------------------------------

TEST_F(FaultTest, TheNumberedAllocationFailsOnce) {
  ASSERT_EQ(orFaultPlan("oom@alloc:2"), orSuccess);
  DeviceArray<int> first(16);
  void* memory = nullptr;
  EXPECT_EQ(orMalloc(&memory, 16), orErrorMemoryAllocation);
  EXPECT_EQ(memory, nullptr);
  EXPECT_TRUE(detailHas("oom@alloc:2"));
  DeviceArray<int> third(16);
  EXPECT_EQ(count("oom"), 1u);
  EXPECT_EQ(count("alloc"), 3u);
  ASSERT_EQ(orFaultClear(), orSuccess);
  DeviceArray<int> fourth(16);
  EXPECT_EQ(count("oom"), 1u); // counts stay
  EXPECT_EQ(count("alloc"), 3u);
  ASSERT_EQ(orFaultPlan(""), orSuccess);
  EXPECT_EQ(count("oom"), 0u);
}

TEST_F(FaultTest, ARuleOfADeviceCountsThatDeviceOnly) {
  ASSERT_EQ(orFaultPlan("oom@alloc:1:device=1"), orSuccess);
  DeviceArray<int> here(16);
  ASSERT_EQ(orSetDevice(1), orSuccess);
  void* memory = nullptr;
  EXPECT_EQ(orMalloc(&memory, 16), orErrorMemoryAllocation);
  ASSERT_EQ(orSetDevice(0), orSuccess);
}

TEST_F(FaultTest, AThreadCanBeLeftAlone) {
  ASSERT_EQ(orFaultPlan("oom@alloc:*"), orSuccess);
  int enabled = 0;
  ASSERT_EQ(orThreadExchangeFaults(&enabled), orSuccess);
  EXPECT_EQ(enabled, 1);
  { DeviceArray<int> works(16); }
  ASSERT_EQ(orThreadExchangeFaults(&enabled), orSuccess);
  EXPECT_EQ(enabled, 0);
  void* memory = nullptr;
  EXPECT_EQ(orMalloc(&memory, 16), orErrorMemoryAllocation);
  EXPECT_EQ(count("alloc"), 1u);
}

TEST_F(FaultTest, ACallerAsksAboutItsOwnPlaces) {
  orFault fault{};
  ASSERT_EQ(
      orFaultAsk(orFaultSiteCollective, "all_reduce", 0, 2, &fault), orSuccess);
  EXPECT_EQ(fault.kind, orFaultNone); // there is no plan
  const int* flag = nullptr;
  ASSERT_EQ(orFaultGetFlag(&flag), orSuccess);
  EXPECT_EQ(*flag, 0);
  ASSERT_EQ(
      orFaultPlan("drop-rank:2@collective:2; slow@collective:2:1ms"),
      orSuccess);
  EXPECT_EQ(*flag, 1);
  const orFaultKind expected[] = {orFaultNone, orFaultNone, orFaultDropRank};
  for (int i = 0; i < 3; ++i) {
    const int rank = i == 0 ? 1 : 2; // another rank's count for the delay only
    ASSERT_EQ(
        orFaultAsk(orFaultSiteCollective, "all_reduce", 0, rank, &fault),
        orSuccess);
    EXPECT_EQ(fault.kind, expected[i]) << i;
    EXPECT_EQ(fault.delay, i == 1 ? 1'000'000u : 0u) << i;
  }
  EXPECT_STREQ(fault.rule, "drop-rank:2@collective:2");
  EXPECT_EQ(count("collective"), 3u);
  EXPECT_EQ(count("drop-rank"), 1u);
}

// --- work ---------------------------------------------------------------------

TEST_F(FaultTest, TheNumberedLaunchOfANameFails) {
  ASSERT_EQ(orFaultPlan("error@op:aten::mm:2"), orSuccess);
  Stream stream;
  int runs = 0;
  EXPECT_EQ(launch(stream, "aten::mm", &runs), orSuccess);
  EXPECT_EQ(launch(stream, "aten::mmm", &runs), orSuccess); // another name
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(launch(stream, "aten::mm.out", &runs), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream), orErrorLaunchFailure);
  EXPECT_TRUE(detailHas("aten::mm.out"));
  EXPECT_TRUE(detailHas("error@op:aten::mm:2"));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(count("error"), 1u);
  EXPECT_EQ(count("kernel-error"), 1u);
}

TEST_F(FaultTest, WorkThatIsOnlyTriedIsNotAsked) {
  ASSERT_EQ(orFaultPlan("error@launch:1"), orSuccess);
  const orLaunchConfig config{"kernel", orLaunchTry};
  EXPECT_EQ(orLaunchKernelEx(&config, defaultStream(), [] {}), orErrorNotReady);
  EXPECT_EQ(count("launch"), 0u);
}

TEST_F(FaultTest, WorkThatItsLauncherWaitsForFailsToo) {
  for (unsigned how : {orLaunchHere, orLaunchWait}) {
    ASSERT_EQ(orFaultPlan("error@launch:1"), orSuccess);
    const orLaunchConfig config{"kernel", how};
    bool ran = false;
    orLaunchKernelEx(&config, defaultStream(), [&ran] { ran = true; });
    EXPECT_EQ(orDeviceSynchronize(), orErrorLaunchFailure);
    EXPECT_FALSE(ran);
    ASSERT_EQ(orDeviceReset(), orSuccess);
  }
}

TEST_F(FaultTest, ACopyFails) {
  DeviceArray<int> array(16);
  std::vector<int> host(16, 7);
  ASSERT_EQ(orFaultPlan("error@copy:2"), orSuccess);
  EXPECT_EQ(
      orMemcpy(array.data(), host.data(), array.bytes(), orMemcpyHostToDevice),
      orSuccess);
  EXPECT_EQ(
      orMemcpy(array.data(), host.data(), array.bytes(), orMemcpyHostToDevice),
      orErrorLaunchFailure);
  EXPECT_EQ(count("copy"), 2u);
}

TEST_F(FaultTest, ALaunchLosesTheDevice) {
  ASSERT_EQ(orFaultPlan("lost@launch:2"), orSuccess);
  int runs = 0;
  EXPECT_EQ(launch(defaultStream(), "kernel", &runs), orSuccess);
  EXPECT_EQ(launch(defaultStream(), "kernel", &runs), orErrorDeviceLost);
  EXPECT_TRUE(detailHas("lost@launch:2"));
  EXPECT_EQ(orDeviceSynchronize(), orErrorDeviceLost);
  ASSERT_EQ(orDeviceReset(), orSuccess);
  runs = 0;
  EXPECT_EQ(launch(defaultStream(), "kernel", &runs), orSuccess);
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(runs, 1);
}

TEST_F(FaultTest, AnAllocationLosesTheDevice) {
  ASSERT_EQ(orFaultPlan("lost@alloc:1"), orSuccess);
  void* memory = nullptr;
  EXPECT_EQ(orMalloc(&memory, 16), orErrorDeviceLost);
  EXPECT_EQ(orDeviceSynchronize(), orErrorDeviceLost);
}

TEST_F(FaultTest, SlowWorkStartsLaterAndComputesTheSame) {
  DeviceArray<int> array(16);
  Event begin(orEventEnableTiming), end(orEventEnableTiming);
  ASSERT_EQ(orFaultPlan("slow@launch:2:20ms"), orSuccess);
  Stream stream;
  ASSERT_EQ(orEventRecord(begin, stream), orSuccess);
  for (int value : {1, 2, 3}) {
    ASSERT_EQ(
        orMemsetAsync(array.data(), value, array.bytes(), stream), orSuccess);
  }
  ASSERT_EQ(orEventRecord(end, stream), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  float milliseconds = 0;
  ASSERT_EQ(orEventElapsedTime(&milliseconds, begin, end), orSuccess);
  EXPECT_GE(milliseconds, 20);
  EXPECT_EQ(array.read(), std::vector<int>(16, 0x03030303));
  EXPECT_EQ(count("slow"), 1u);
}

TEST_F(FaultTest, AFlipChangesOneBitThatTheSeedChooses) {
  const auto seven = flipped("flip@launch:1; seed=7");
  int bits = 0;
  for (int value : seven) {
    bits += __builtin_popcount(static_cast<unsigned>(value));
  }
  EXPECT_EQ(bits, 1);
  EXPECT_EQ(flipped("flip@launch:1; seed=7"), seven);
  EXPECT_NE(flipped("flip@launch:1; seed=8"), seven);
  EXPECT_EQ(flipped("flip@launch:2; seed=7"), std::vector<int>(64, 0));
}

TEST_F(FaultTest, AFlipInHostMemoryIsThereWhenTheCallReturns) {
  std::vector<unsigned char> host(8, 0);
  DeviceArray<char> array(8);
  ASSERT_EQ(orMemset(array.data(), 0, 8), orSuccess);
  ASSERT_EQ(orFaultPlan("flip@copy:1"), orSuccess);
  ASSERT_EQ(
      orMemcpy(host.data(), array.data(), 8, orMemcpyDeviceToHost), orSuccess);
  const orFaultRange range{host.data(), host.size()};
  EXPECT_EQ(orFaultFlipOutput(&range, 1, defaultStream()), orSuccess);
  EXPECT_NE(host, std::vector<unsigned char>(8, 0));
}

TEST_F(FaultTest, AFlipWithoutAStreamOrRangesIsRefused) {
  int runs = 0;
  for (bool stream : {true, false}) {
    ASSERT_EQ(orFaultPlan("flip@launch:1"), orSuccess);
    ASSERT_EQ(launch(defaultStream(), "kernel", &runs), orSuccess);
    EXPECT_EQ(
        orFaultFlipOutput(nullptr, 1, stream ? defaultStream() : nullptr),
        stream ? orErrorInvalidValue : orErrorInvalidHandle);
  }
  ASSERT_EQ(orFaultPlan("flip@launch:1"), orSuccess);
  ASSERT_EQ(launch(defaultStream(), "kernel", &runs), orSuccess);
  EXPECT_EQ(orFaultFlipOutput(nullptr, 0, defaultStream()), orSuccess);
}

TEST_F(FaultTest, AShareOfTheLaunchesIsTheSameEveryTime) {
  std::vector<unsigned long long> fired;
  for (const char* plan :
       {"slow@launch:20%:1ns; seed=1",
        "slow@launch:20%:1ns; seed=1",
        "slow@launch:100%:1ns"}) {
    ASSERT_EQ(orFaultPlan(plan), orSuccess);
    int runs = 0;
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(launch(defaultStream(), "kernel", &runs), orSuccess);
    }
    ASSERT_EQ(orDeviceSynchronize(), orSuccess);
    EXPECT_EQ(runs, 200);
    fired.push_back(count("slow"));
  }
  EXPECT_EQ(fired[0], fired[1]);
  EXPECT_GT(fired[0], 10u);
  EXPECT_LT(fired[0], 90u);
  EXPECT_EQ(fired[2], 200u);
}

// --- captures -----------------------------------------------------------------

TEST_F(FaultTest, ACaptureIsInvalidated) {
  ASSERT_EQ(orFaultPlan("error@capture:2"), orSuccess);
  Stream stream;
  for (bool invalidated : {false, true}) {
    ASSERT_EQ(
        orStreamBeginCapture(stream, orStreamCaptureModeRelaxed), orSuccess);
    int runs = 0;
    EXPECT_EQ(
        launch(stream, "kernel", &runs),
        invalidated ? orErrorStreamCaptureInvalidated : orSuccess);
    orGraph_t graph = nullptr;
    EXPECT_EQ(
        orStreamEndCapture(stream, &graph),
        invalidated ? orErrorStreamCaptureInvalidated : orSuccess);
    if (graph) {
      EXPECT_EQ(orGraphDestroy(graph), orSuccess);
    }
  }
  EXPECT_EQ(count("capture"), 2u);
  EXPECT_EQ(count("launch"), 0u); // nothing was launched
}

TEST_F(FaultTest, ACaptureLosesTheDevice) {
  ASSERT_EQ(orFaultPlan("lost@capture:1"), orSuccess);
  Stream stream;
  EXPECT_EQ(
      orStreamBeginCapture(stream, orStreamCaptureModeRelaxed),
      orErrorDeviceLost);
}

// --- the environment ----------------------------------------------------------

TEST(FaultVariableTest, APlanOfTheEnvironmentIsInForceFromTheStart) {
  auto body = [] {
    setenv("OPENREG_FAULTS", "oom@alloc:2", 1);
    void* first = nullptr;
    void* second = nullptr;
    CHILD_REQUIRE(orMalloc(&first, 16) == orSuccess);
    CHILD_REQUIRE(orMalloc(&second, 16) == orErrorMemoryAllocation);
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(FaultVariableTest, AMalformedOneIsRefused) {
  auto body = [] {
    setenv("OPENREG_FAULTS", "oom@nowhere:2", 1);
    CHILD_REQUIRE(orDeviceSynchronize() == orErrorInvalidConfiguration);
    CHILD_REQUIRE(detailHas("OPENREG_FAULTS='oom@nowhere:2'"));
    CHILD_REQUIRE(detailHas("'nowhere'"));
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

} // namespace
} // namespace openreg::testing
