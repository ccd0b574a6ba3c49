// Where kernels run, and what they may call.
#include "support.h"

#include <atomic>
#include <thread>

namespace openreg::testing {
namespace {

const orLaunchConfig kSmall{"small", orLaunchSmall};

std::thread::id threadOfKernel(orStream_t stream, const orLaunchConfig* how) {
  std::atomic<std::thread::id> thread;
  auto note = [&thread] { thread = std::this_thread::get_id(); };
  EXPECT_EQ(orLaunchKernelEx(how, stream, note), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
  return thread;
}

// Whether small work ran on the calling thread, each of several times.
int countSmallRunsHere() {
  Stream streams[2];
  int here = 0;
  for (int i = 0; i < 100; ++i) {
    const auto thread = threadOfKernel(streams[i % 2], &kSmall);
    here += thread == std::this_thread::get_id() ? 1 : 0;
  }
  return here;
}

TEST(SmallLaunchTest, RunsOnTheCallingThreadUnderAutoIfTheStreamIsIdle) {
  auto body = [] {
    setenv("OPENREG_SCHEDULE", "auto", 1);
    EXPECT_EQ(countSmallRunsHere(), 100);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(SmallLaunchTest, NeverRunsOnTheCallingThreadUnderAsync) {
  auto body = [] {
    setenv("OPENREG_SCHEDULE", "async", 1);
    EXPECT_EQ(countSmallRunsHere(), 0);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(SmallLaunchTest, NeverRunsOnTheCallingThreadUnderAdversarial) {
  auto body = [] {
    setenv("OPENREG_SCHEDULE", "adversarial", 1);
    EXPECT_EQ(countSmallRunsHere(), 0);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(SmallLaunchTest, RawLaunchesNeverRunOnTheCallingThread) {
  Stream stream;
  const orLaunchConfig named{"named", orLaunchDefault};
  for (int i = 0; i < 100; ++i) {
    EXPECT_NE(threadOfKernel(stream, nullptr), std::this_thread::get_id());
    EXPECT_NE(threadOfKernel(stream, &named), std::this_thread::get_id());
  }
}

TEST(SmallLaunchTest, QueuesBehindTheWorkOfABusyStream) {
  Stream stream;
  std::string order;
  Gate gate(stream);
  ASSERT_EQ(orLaunchKernel(stream, [&] { order += 'a'; }), orSuccess);
  ASSERT_EQ(
      orLaunchKernelEx(&kSmall, stream, [&] { order += 'b'; }), orSuccess);
  ASSERT_EQ(orLaunchKernel(stream, [&] { order += 'c'; }), orSuccess);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(order, "abc");
}

TEST(SmallLaunchTest, QueuesBehindTheDefaultStream) {
  Stream blocking(orStreamDefault);
  std::atomic<bool> ran = false;
  Gate gate(defaultStream());
  ASSERT_EQ(
      orLaunchKernelEx(&kSmall, blocking, [&ran] { ran = true; }), orSuccess);
  EXPECT_FALSE(ran);
  EXPECT_EQ(orStreamQuery(blocking), orErrorNotReady);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(blocking), orSuccess);
  EXPECT_TRUE(ran);
}

TEST(SmallLaunchTest, QueuesBehindAWaitForAnEvent) {
  Stream producer, consumer;
  Event event;
  std::atomic<bool> ran = false;
  Gate gate(producer);
  ASSERT_EQ(orEventRecord(event, producer), orSuccess);
  ASSERT_EQ(orStreamWaitEvent(consumer, event, 0), orSuccess);
  ASSERT_EQ(
      orLaunchKernelEx(&kSmall, consumer, [&ran] { ran = true; }), orSuccess);
  EXPECT_FALSE(ran);
  EXPECT_EQ(orStreamQuery(consumer), orErrorNotReady);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(consumer), orSuccess);
  EXPECT_TRUE(ran);
}

// Small work of one thread may run there while another thread queues: the order
// of the stream, and the thread sanitizer, must not notice.
TEST(SmallLaunchTest, KeepsTheStreamSerialAmongThreads) {
  constexpr int kThreads = 3, kLaunches = 1500;
  Stream stream;
  std::vector<int> last(kThreads, -1);
  int total = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kLaunches; ++i) {
        auto note = [&, thread, i] {
          EXPECT_EQ(last[static_cast<size_t>(thread)], i - 1);
          last[static_cast<size_t>(thread)] = i;
          ++total;
        };
        const orLaunchConfig* how = i % 3 == 0 ? nullptr : &kSmall;
        ASSERT_EQ(orLaunchKernelEx(how, stream, note), orSuccess);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(total, kThreads * kLaunches);
}

TEST(KernelPointerTest, LeadsToTheBytesOfTheDeviceAddress) {
  Stream stream;
  DeviceArray<int> array(100);
  int* const kernel = array.kernel();
  ASSERT_NE(kernel, nullptr);
  EXPECT_NE(kernel, array.data());
  auto fill = [kernel] {
    for (int i = 0; i < 100; ++i) {
      kernel[i] = i;
    }
  };
  ASSERT_EQ(orLaunchKernel(stream, fill), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  const std::vector<int> read = array.read();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(read[static_cast<size_t>(i)], i);
  }
}

TEST(KernelPointerTest, IsAConstantDistanceAway) {
  DeviceArray<char> first(10), second(100'000);
  char* const a = first.kernel();
  char* const b = second.kernel();
  EXPECT_EQ(a - first.data(), b - second.data());
  EXPECT_EQ(orKernelPointer(second.data() + 99'999), b + 99'999);
}

TEST(KernelPointerTest, IsNullForMemoryOfTheHost) {
  PinnedArray<int> pinned(1, 0);
  int local = 0;
  for (void* bad :
       {static_cast<void*>(nullptr),
        static_cast<void*>(&local),
        static_cast<void*>(pinned.data())}) {
    orGetLastError();
    EXPECT_EQ(orKernelPointer(bad), nullptr);
    EXPECT_EQ(orPeekAtLastError(), orErrorInvalidDevicePointer);
    EXPECT_NE(lastDetail(), "");
  }
}

TEST(KernelPointerTest, NeedsPeerAccessToAnotherDevicesMemory) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  DeviceArray<int> there(1);
  EXPECT_NE(there.kernel(), nullptr);
  ASSERT_EQ(orSetDevice(0), orSuccess);
  orGetLastError();
  EXPECT_EQ(there.kernel(), nullptr);
  EXPECT_EQ(orPeekAtLastError(), orErrorPeerAccessNotEnabled);
  EXPECT_TRUE(detailHas("1"));

  ASSERT_EQ(orDeviceEnablePeerAccess(1, 0), orSuccess);
  EXPECT_NE(there.kernel(), nullptr);
  ASSERT_EQ(orDeviceDisablePeerAccess(1), orSuccess);
  EXPECT_EQ(there.kernel(), nullptr);
}

TEST(KernelPointerTest, InAKernelGoesByTheDeviceOfTheKernel) {
  DeviceArray<int> here(1);
  ASSERT_EQ(orSetDevice(1), orSuccess);
  DeviceArray<int> there(1);
  Stream stream;
  ASSERT_EQ(orSetDevice(0), orSuccess);

  int* own = nullptr;
  int* peer = nullptr;
  orError_t error = orSuccess;
  auto translate = [&] {
    own = there.kernel();
    orGetLastError();
    peer = here.kernel();
    error = orGetLastError();
    if (peer) {
      *own = *peer = 7;
    }
  };
  ASSERT_EQ(orLaunchKernel(stream, translate), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_NE(own, nullptr);
  EXPECT_EQ(peer, nullptr);
  EXPECT_EQ(error, orErrorPeerAccessNotEnabled);

  ASSERT_EQ(orSetDevice(1), orSuccess);
  ASSERT_EQ(orDeviceEnablePeerAccess(0, 0), orSuccess);
  ASSERT_EQ(orLaunchKernel(stream, translate), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(orDeviceDisablePeerAccess(0), orSuccess);
  ASSERT_EQ(orSetDevice(0), orSuccess);
  EXPECT_EQ(error, orSuccess);
  EXPECT_EQ(here.read()[0], 7);
  EXPECT_EQ(there.read()[0], 7);
}

TEST(KernelPointerTest, InSmallWorkGoesByTheDeviceOfTheStream) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  DeviceArray<int> there(1);
  Stream stream;
  ASSERT_EQ(orSetDevice(0), orSuccess);
  int* kernel = nullptr;
  auto translate = [&] { kernel = there.kernel(); };
  ASSERT_EQ(orLaunchKernelEx(&kSmall, stream, translate), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_NE(kernel, nullptr);
  EXPECT_EQ(there.kernel(), nullptr) << "the launch left its device behind";
}

TEST(KernelFailTest, IsNotPermittedOutsideAKernel) {
  EXPECT_EQ(orKernelFail(orErrorAssert, "no"), orErrorNotPermitted);
  EXPECT_NE(lastDetail(), "");
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
}

TEST(KernelFailTest, RefusesCodesThatAreNoFailure) {
  Stream stream;
  orError_t success = orSuccess, unknown = orSuccess;
  auto kernel = [&] {
    success = orKernelFail(orSuccess, "no");
    unknown = orKernelFail(static_cast<orError_t>(1000), "no");
    EXPECT_TRUE(detailHas("1000"));
  };
  ASSERT_EQ(orLaunchKernel(stream, kernel), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(success, orErrorInvalidValue);
  EXPECT_EQ(unknown, orErrorInvalidValue);
}

TEST(KernelFailTest, BreaksTheDeviceOnceTheKernelReturns) {
  Stream stream;
  orError_t marked = orErrorNotReady;
  bool wentOn = false;
  auto kernel = [&] {
    char message[] = "index 9 is out of bounds";
    marked = orKernelFail(orErrorAssert, message);
    message[0] = '?';
    wentOn = true;
  };
  ASSERT_EQ(orLaunchKernel(stream, kernel), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream), orErrorAssert);
  EXPECT_TRUE(detailHas("index 9 is out of bounds"));
  EXPECT_EQ(orDeviceReset(), orSuccess);
  EXPECT_EQ(marked, orSuccess);
  EXPECT_TRUE(wentOn);
}

TEST(KernelFailTest, NeedsNoMessage) {
  Stream stream;
  auto kernel = [] { orKernelFail(orErrorLaunchFailure, nullptr); };
  ASSERT_EQ(orLaunchKernel(stream, kernel), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream), orErrorLaunchFailure);
  EXPECT_EQ(orDeviceReset(), orSuccess);
}

TEST(KernelFailTest, WorksInSmallWorkToo) {
  Stream stream;
  auto kernel = [] { orKernelFail(orErrorAssert, "small and bad"); };
  orLaunchKernelEx(&kSmall, stream, kernel);
  EXPECT_EQ(orStreamSynchronize(stream), orErrorAssert);
  EXPECT_TRUE(detailHas("small and bad"));
  EXPECT_EQ(orDeviceReset(), orSuccess);
}

} // namespace
} // namespace openreg::testing
