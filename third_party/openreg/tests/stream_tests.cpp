#include "support.h"

#include <atomic>
#include <set>
#include <thread>

namespace openreg::testing {
namespace {

orStream_t madeUpStream() {
  return reinterpret_cast<orStream_t>(0x1234);
}

orStream_t staleStream() {
  orStream_t stream = nullptr;
  EXPECT_EQ(orStreamCreate(&stream), orSuccess);
  EXPECT_EQ(orStreamDestroy(stream), orSuccess);
  return stream;
}

TEST(DefaultStreamTest, IsOneAndTheSamePerDevice) {
  EXPECT_NE(defaultStream(0), nullptr);
  EXPECT_EQ(defaultStream(0), defaultStream(0));
  EXPECT_NE(defaultStream(0), defaultStream(1));
  int device = -1;
  ASSERT_EQ(orStreamGetDevice(defaultStream(1), &device), orSuccess);
  EXPECT_EQ(device, 1);
  unsigned flags = 99;
  ASSERT_EQ(orStreamGetFlags(defaultStream(1), &flags), orSuccess);
  EXPECT_EQ(flags, static_cast<unsigned>(orStreamDefault));
}

TEST(DefaultStreamTest, IsRefusedForNullAndForUnknownDevices) {
  EXPECT_EQ(orDeviceGetDefaultStream(nullptr, 0), orErrorInvalidValue);
  orStream_t stream = nullptr;
  EXPECT_EQ(orDeviceGetDefaultStream(&stream, 7), orErrorInvalidDevice);
  EXPECT_TRUE(detailHas("7"));
  EXPECT_EQ(orDeviceGetDefaultStream(&stream, -1), orErrorInvalidDevice);
  EXPECT_TRUE(detailHas("-1"));
}

TEST(StreamCreateTest, MakesABlockingStreamOfTheCurrentDeviceByDefault) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  orStream_t stream = nullptr;
  ASSERT_EQ(orStreamCreate(&stream), orSuccess);
  ASSERT_EQ(orSetDevice(0), orSuccess);

  int device = -1, priority = 99;
  unsigned flags = 99;
  EXPECT_EQ(orStreamGetDevice(stream, &device), orSuccess);
  EXPECT_EQ(orStreamGetPriority(stream, &priority), orSuccess);
  EXPECT_EQ(orStreamGetFlags(stream, &flags), orSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(priority, 0);
  EXPECT_EQ(flags, static_cast<unsigned>(orStreamDefault));
  EXPECT_EQ(orStreamDestroy(stream), orSuccess);
}

TEST(StreamCreateTest, KeepsTheFlagsItIsGiven) {
  for (unsigned wanted : {orStreamDefault, orStreamNonBlocking}) {
    orStream_t stream = nullptr;
    ASSERT_EQ(orStreamCreateWithFlags(&stream, wanted), orSuccess);
    unsigned flags = 99;
    int priority = 99;
    EXPECT_EQ(orStreamGetFlags(stream, &flags), orSuccess);
    EXPECT_EQ(orStreamGetPriority(stream, &priority), orSuccess);
    EXPECT_EQ(flags, wanted);
    EXPECT_EQ(priority, 0);
    EXPECT_EQ(orStreamDestroy(stream), orSuccess);
  }
}

TEST(StreamCreateTest, ClampsPrioritiesToTheRangeOfTheDevice) {
  int least = 99, greatest = 99;
  ASSERT_EQ(orDeviceGetStreamPriorityRange(&least, &greatest), orSuccess);
  EXPECT_EQ(least, 0);
  EXPECT_EQ(greatest, -3);
  constexpr int kWantedAndGot[][2] = {
      {5, 0}, {0, 0}, {-1, -1}, {-3, -3}, {-4, -3}, {-1000, -3}};
  for (const auto& [wanted, expected] : kWantedAndGot) {
    Stream stream(orStreamDefault, wanted);
    int priority = 99;
    ASSERT_EQ(orStreamGetPriority(stream, &priority), orSuccess);
    EXPECT_EQ(priority, expected) << "asked for " << wanted;
  }
}

TEST(StreamCreateTest, RefusesNullAndUnknownFlags) {
  EXPECT_EQ(orStreamCreate(nullptr), orErrorInvalidValue);
  EXPECT_EQ(orStreamCreateWithFlags(nullptr, 0), orErrorInvalidValue);
  EXPECT_EQ(orStreamCreateWithPriority(nullptr, 0, 0), orErrorInvalidValue);
  orStream_t stream = nullptr;
  EXPECT_EQ(orStreamCreateWithFlags(&stream, 42), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("42"));
  EXPECT_EQ(orStreamCreateWithPriority(&stream, 43, 0), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("43"));
  EXPECT_EQ(stream, nullptr);
}

// In a child, because every later test would have to look at the many places.
TEST(StreamCreateTest, FailsWhenTooManyStreamsAreAliveAndRecovers) {
  auto body = [] {
    constexpr size_t kMoreThanFit = 10'000'000;
    std::vector<orStream_t> streams;
    orStream_t stream = nullptr;
    while (streams.size() < kMoreThanFit &&
           orStreamCreate(&stream) == orSuccess) {
      streams.push_back(stream);
    }
    EXPECT_EQ(orGetLastError(), orErrorMemoryAllocation);
    EXPECT_EQ(orStreamCreate(&stream), orErrorMemoryAllocation);
    EXPECT_EQ(orStreamCreateWithFlags(&stream, 0), orErrorMemoryAllocation);
    EXPECT_EQ(
        orStreamCreateWithPriority(&stream, 0, 0), orErrorMemoryAllocation);
    EXPECT_NE(lastDetail(), "");
    for (orStream_t created : streams) {
      EXPECT_EQ(orStreamDestroy(created), orSuccess);
    }
    EXPECT_EQ(orStreamCreate(&stream), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(StreamHandleTest, NullStaleAndMadeUpHandlesAreToldFromLiveOnes) {
  Event event;
  for (orStream_t bad : {orStream_t{}, staleStream(), madeUpStream()}) {
    int number = 0;
    unsigned flags = 0;
    unsigned long long id = 0;
    EXPECT_EQ(orStreamDestroy(bad), orErrorInvalidHandle);
    EXPECT_EQ(orStreamQuery(bad), orErrorInvalidHandle);
    EXPECT_EQ(orStreamSynchronize(bad), orErrorInvalidHandle);
    EXPECT_NE(lastDetail(), "");
    EXPECT_EQ(orStreamWaitEvent(bad, event, 0), orErrorInvalidHandle);
    EXPECT_EQ(orStreamGetPriority(bad, &number), orErrorInvalidHandle);
    EXPECT_EQ(orStreamGetFlags(bad, &flags), orErrorInvalidHandle);
    EXPECT_EQ(orStreamGetDevice(bad, &number), orErrorInvalidHandle);
    EXPECT_EQ(orStreamGetId(bad, &id), orErrorInvalidHandle);
  }
  EXPECT_EQ(orStreamQuery(madeUpStream()), orErrorInvalidHandle);
  EXPECT_TRUE(detailHas("0x1234"));
}

// In a child, where both kinds of handles count from the beginning.
TEST(StreamHandleTest, AStreamIsNoEventAndAnEventIsNoStream) {
  auto body = [] {
    Stream streams[8];
    Event events[8];
    for (orStream_t stream : streams) {
      const auto bad = reinterpret_cast<orEvent_t>(stream);
      EXPECT_EQ(orEventQuery(bad), orErrorInvalidHandle);
      EXPECT_EQ(orEventRecord(bad, stream), orErrorInvalidHandle);
    }
    for (orEvent_t event : events) {
      const auto bad = reinterpret_cast<orStream_t>(event);
      EXPECT_EQ(orStreamQuery(bad), orErrorInvalidHandle);
      EXPECT_EQ(orStreamDestroy(bad), orErrorInvalidHandle);
    }
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(StreamHandleTest, GettersRefuseNull) {
  Stream stream;
  EXPECT_EQ(orStreamGetPriority(stream, nullptr), orErrorInvalidValue);
  EXPECT_EQ(orStreamGetFlags(stream, nullptr), orErrorInvalidValue);
  EXPECT_EQ(orStreamGetDevice(stream, nullptr), orErrorInvalidValue);
  EXPECT_EQ(orStreamGetId(stream, nullptr), orErrorInvalidValue);
  EXPECT_NE(lastDetail(), "");
}

TEST(StreamHandleTest, NoTwoStreamsEverHaveTheSameId) {
  std::set<unsigned long long> ids;
  const auto idOf = [](orStream_t stream) {
    unsigned long long id = 0;
    EXPECT_EQ(orStreamGetId(stream, &id), orSuccess);
    return id;
  };
  EXPECT_TRUE(ids.insert(idOf(defaultStream(0))).second);
  EXPECT_TRUE(ids.insert(idOf(defaultStream(1))).second);
  for (int i = 0; i < 100; ++i) {
    Stream lives, dies;
    EXPECT_TRUE(ids.insert(idOf(lives)).second);
    EXPECT_TRUE(ids.insert(idOf(dies)).second);
  }
  EXPECT_EQ(ids.count(0), 0u) << "0 stands for no stream";
}

TEST(StreamDestroyTest, RefusesTheDefaultStream) {
  EXPECT_EQ(orStreamDestroy(defaultStream()), orErrorInvalidHandle);
  EXPECT_EQ(orStreamQuery(defaultStream()), orSuccess);
}

TEST(StreamDestroyTest, LetsTheWorkOfABusyStreamFinish) {
  orStream_t stream = nullptr;
  ASSERT_EQ(orStreamCreate(&stream), orSuccess);
  std::atomic<int> ran = 0;
  Gate gate(stream);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(orLaunchKernel(stream, [&ran] { ++ran; }), orSuccess);
  }
  ASSERT_EQ(orStreamDestroy(stream), orSuccess);
  EXPECT_EQ(orStreamQuery(stream), orErrorInvalidHandle);
  gate.open();
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(ran, 100);
}

TEST(StreamQueryTest, IsNotReadyUntilTheLastTaskHasFinished) {
  Stream stream;
  EXPECT_EQ(orStreamQuery(stream), orSuccess);
  Gate gate(stream);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(orStreamQuery(stream), orErrorNotReady);
    std::this_thread::yield();
  }
  gate.open();
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(orStreamQuery(stream), orSuccess);
}

TEST(StreamQueryTest, IsNotReadyForAKernelOfTheStreamItself) {
  Stream stream;
  orError_t seen = orSuccess;
  auto ask = [&] { seen = orStreamQuery(stream); };
  ASSERT_EQ(orLaunchKernel(stream, ask), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(seen, orErrorNotReady);
}

TEST(StreamQueryTest, AskingOftenEnoughLetsQueuedWorkFinish) {
  Stream stream;
  bool ran = false;
  ASSERT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
  while (orStreamQuery(stream) == orErrorNotReady) {
    std::this_thread::yield();
  }
  EXPECT_EQ(orStreamQuery(stream), orSuccess);
  EXPECT_TRUE(ran);
}

TEST(StreamSynchronizeTest, WaitsForAllWorkQueuedSoFar) {
  Stream stream;
  int ran = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(orLaunchKernel(stream, [&ran] { ++ran; }), orSuccess);
  }
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(ran, 100);
}

TEST(StreamSynchronizeTest, DoesNotWaitForOtherStreams) {
  Stream busy, free;
  Gate gate(busy);
  ASSERT_EQ(orLaunchKernel(free, [] {}), orSuccess);
  EXPECT_EQ(orStreamSynchronize(free), orSuccess);
  EXPECT_EQ(orStreamQuery(busy), orErrorNotReady);
}

TEST(StreamSynchronizeTest, IsNotPermittedFromAKernelOrAHostFunction) {
  struct Seen {
    orStream_t own, other;
    orError_t errors[4];
  };
  Stream own, other;
  Seen seen{own, other, {}};
  auto kernel = [&seen] {
    seen.errors[0] = orStreamSynchronize(seen.own);
    seen.errors[1] = orStreamSynchronize(seen.other);
  };
  auto hostFunction = [](void* raw) {
    auto* result = static_cast<Seen*>(raw);
    result->errors[2] = orStreamSynchronize(result->own);
    result->errors[3] = orStreamSynchronize(result->other);
  };
  ASSERT_EQ(orLaunchKernel(own, kernel), orSuccess);
  ASSERT_EQ(orLaunchHostFunc(own, hostFunction, &seen), orSuccess);
  ASSERT_EQ(orStreamSynchronize(own), orSuccess);
  for (orError_t error : seen.errors) {
    EXPECT_EQ(error, orErrorNotPermitted);
  }
}

TEST(StreamWaitEventTest, RefusesBadEventsAndFlags) {
  Stream stream;
  Event event;
  orEvent_t stale = nullptr;
  ASSERT_EQ(orEventCreate(&stale), orSuccess);
  ASSERT_EQ(orEventDestroy(stale), orSuccess);
  const auto madeUp = reinterpret_cast<orEvent_t>(0x1234);
  for (orEvent_t bad : {orEvent_t{}, stale, madeUp}) {
    EXPECT_EQ(orStreamWaitEvent(stream, bad, 0), orErrorInvalidHandle);
  }
  EXPECT_TRUE(detailHas("0x1234"));
  EXPECT_EQ(orStreamWaitEvent(stream, event, 17), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("17"));
}

TEST(StreamWaitEventTest, IsNotPermittedFromAKernelWhoseOwnQueueIsFull) {
  Stream stream, other;
  Event event;
  Gate gate(other);
  ASSERT_EQ(orEventRecord(event, other), orSuccess);
  orError_t filled = orSuccess, waited = orSuccess;
  auto kernel = [&] {
    filled = fillQueue(stream);
    waited = orStreamWaitEvent(stream, event, 0);
    gate.open();
  };
  ASSERT_EQ(orLaunchKernel(stream, kernel), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(filled, orErrorNotPermitted);
  EXPECT_EQ(waited, orErrorNotPermitted);
}

} // namespace
} // namespace openreg::testing
