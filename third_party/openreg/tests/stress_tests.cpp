// Many threads doing everything at once. What can go wrong here is for the
// address and thread sanitizers to find; the checks are a bonus.
#include "support.h"

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

namespace openreg::testing {
namespace {

constexpr int kThreads = 4;

bool oneOf(orError_t error, const std::vector<orError_t>& accepted) {
  return std::find(accepted.begin(), accepted.end(), error) != accepted.end();
}

// Calls `body(thread, random)` in several threads, over and over for a while.
template <class Body>
void hammer(Body body) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([thread, end, &body] {
      std::mt19937 random(static_cast<unsigned>(thread));
      do {
        body(thread, random);
      } while (std::chrono::steady_clock::now() < end);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (int device : {1, 0}) {
    EXPECT_EQ(orSetDevice(device), orSuccess);
    EXPECT_EQ(orDeviceSynchronize(), orSuccess);
  }
}

TEST(StressTest, EachThreadKeepsItsOwnStreamsEventsAndMemoryApart) {
  hammer([](int thread, std::mt19937& random) {
    ASSERT_EQ(orSetDevice(thread % 2), orSuccess);
    const size_t count = 1 + random() % 5000;
    Stream producer(random() % 2), consumer(random() % 2, -1);
    Event event(random() % 2);
    DeviceArray<uint32_t> a(count), b(count);
    PinnedArray<uint32_t> in(count, uint32_t(random())), out(count, 0);
    ASSERT_EQ(
        orMemcpyAsync(
            a.data(), in.data(), in.bytes(), orMemcpyHostToDevice, producer),
        orSuccess);
    uint32_t* const words = a.kernel();
    auto add = [words, count] {
      for (size_t i = 0; i < count; ++i) {
        words[i] += static_cast<uint32_t>(i);
      }
    };
    ASSERT_EQ(orLaunchKernel(producer, add), orSuccess);
    ASSERT_EQ(orEventRecord(event, producer), orSuccess);
    ASSERT_EQ(orStreamWaitEvent(consumer, event, 0), orSuccess);
    ASSERT_EQ(
        orMemcpyAsync(b.data(), a.data(), a.bytes(), orMemcpyDefault, consumer),
        orSuccess);
    ASSERT_EQ(
        orMemcpyAsync(
            out.data(), b.data(), b.bytes(), orMemcpyDefault, consumer),
        orSuccess);
    ASSERT_EQ(orStreamSynchronize(consumer), orSuccess);
    EXPECT_EQ(out[0], in[0]);
    EXPECT_EQ(out[count - 1], in[0] + static_cast<uint32_t>(count - 1));
  });
}

TEST(StressTest, ThreadsMayShareAStreamAndAnEvent) {
  Stream first, second(orStreamDefault);
  Event event(orEventEnableTiming);
  std::atomic<int> launched = 0;
  int ran[2] = {};
  hammer([&](int, std::mt19937& random) {
    const int i = static_cast<int>(random() % 2);
    const orStream_t stream = i ? second : first;
    const orLaunchConfig config{"count", static_cast<unsigned>(random() % 2)};
    auto count = [&ran, i] { ++ran[i]; };
    switch (random() % 6) {
      case 0:
        ASSERT_EQ(orEventRecord(event, stream), orSuccess);
        break;
      case 1:
        ASSERT_EQ(orStreamWaitEvent(stream, event, 0), orSuccess);
        break;
      case 2:
        EXPECT_TRUE(oneOf(orStreamQuery(stream), {orSuccess, orErrorNotReady}));
        EXPECT_TRUE(oneOf(orEventQuery(event), {orSuccess, orErrorNotReady}));
        break;
      case 3:
        ASSERT_EQ(orEventSynchronize(event), orSuccess);
        break;
      default:
        ASSERT_EQ(orLaunchKernelEx(&config, stream, count), orSuccess);
        ++launched;
    }
  });
  EXPECT_EQ(ran[0] + ran[1], launched);
}

TEST(StressTest, HandlesMayBeDestroyedWhileOthersUseThem) {
  std::array<std::atomic<orStream_t>, 4> streams{};
  std::array<std::atomic<orEvent_t>, 4> events{};
  std::atomic<int> launched = 0, ran = 0;
  hammer([&](int, std::mt19937& random) {
    const orStream_t stream = streams[random() % 4];
    const orEvent_t event = events[random() % 4];
    const auto expectDoneOrStale = [](orError_t error) {
      EXPECT_TRUE(
          oneOf(error, {orSuccess, orErrorNotReady, orErrorInvalidHandle}))
          << orGetErrorName(error);
    };
    orStream_t newStream = nullptr;
    orEvent_t newEvent = nullptr;
    switch (random() % 8) {
      case 0:
        ASSERT_EQ(orStreamCreateWithFlags(&newStream, random() % 2), orSuccess);
        newStream = streams[random() % 4].exchange(newStream);
        if (newStream) {
          EXPECT_EQ(orStreamDestroy(newStream), orSuccess);
        }
        break;
      case 1:
        ASSERT_EQ(orEventCreateWithFlags(&newEvent, random() % 2), orSuccess);
        newEvent = events[random() % 4].exchange(newEvent);
        if (newEvent) {
          EXPECT_EQ(orEventDestroy(newEvent), orSuccess);
        }
        break;
      case 2:
        return expectDoneOrStale(orEventRecord(event, stream));
      case 3:
        return expectDoneOrStale(orStreamWaitEvent(stream, event, 0));
      case 4:
        return expectDoneOrStale(orStreamSynchronize(stream));
      case 5:
        return expectDoneOrStale(orEventQuery(event));
      default:
        if (orLaunchKernel(stream, [&ran] { ++ran; }) == orSuccess) {
          ++launched;
        }
    }
  });
  for (auto& stream : streams) {
    orStreamDestroy(stream);
  }
  for (auto& event : events) {
    orEventDestroy(event);
  }
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(ran, launched);
}

TEST(StressTest, ADeviceMayBreakAndBeResetWhileOthersUseIt) {
  const std::vector<orError_t> kAccepted = {
      orSuccess,
      orErrorNotReady,
      orErrorAssert,
      orErrorInvalidHandle,
      orErrorInvalidValue,
      orErrorNotPermitted};
  std::atomic<int> resets = 0;
  hammer([&](int thread, std::mt19937& random) {
    ASSERT_EQ(orSetDevice(1), orSuccess);
    if (thread == 0) {
      auto fail = [] { orKernelFail(orErrorAssert, "on purpose"); };
      orLaunchKernel(defaultStream(1), fail);
      EXPECT_TRUE(oneOf(orDeviceSynchronize(), kAccepted));
      EXPECT_EQ(orDeviceReset(), orSuccess);
      ++resets;
      return;
    }
    orStream_t stream = nullptr;
    orEvent_t event = nullptr;
    void* memory = nullptr;
    const orError_t errors[] = {
        orStreamCreateWithFlags(&stream, random() % 2),
        orEventCreateWithFlags(&event, random() % 2),
        orMalloc(&memory, 1 + random() % 100'000),
        orLaunchKernel(stream, [] {}),
        orEventRecord(event, stream),
        orStreamWaitEvent(defaultStream(1), event, 0),
        orStreamSynchronize(stream),
        orEventDestroy(event),
        orStreamDestroy(stream),
        orFree(memory),
    };
    for (orError_t error : errors) {
      EXPECT_TRUE(oneOf(error, kAccepted)) << orGetErrorName(error);
    }
  });
  EXPECT_GT(resets, 0);
  EXPECT_EQ(orSetDevice(1), orSuccess);
  EXPECT_EQ(orDeviceReset(), orSuccess);
  EXPECT_EQ(orSetDevice(0), orSuccess);
}

} // namespace
} // namespace openreg::testing
