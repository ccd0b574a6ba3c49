#include "support.h"

#include <chrono>
#include <cmath>
#include <thread>

namespace openreg::testing {
namespace {

orEvent_t madeUpEvent() {
  return reinterpret_cast<orEvent_t>(0x1234);
}

orEvent_t staleEvent() {
  orEvent_t event = nullptr;
  EXPECT_EQ(orEventCreate(&event), orSuccess);
  EXPECT_EQ(orEventDestroy(event), orSuccess);
  return event;
}

// Asks many times, so that work that runs too early is seen to have run.
void expectStaysPending(orEvent_t event) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(orEventQuery(event), orErrorNotReady);
    std::this_thread::yield();
  }
}

// Makes a device current for a scope.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    EXPECT_EQ(orSetDevice(device), orSuccess);
  }
  ~OnDevice() {
    orSetDevice(0);
  }
};

TEST(EventCreateTest, MakesAnEventThatIsDoneUntilItIsRecorded) {
  orEvent_t event = nullptr;
  ASSERT_EQ(orEventCreate(&event), orSuccess);
  EXPECT_EQ(orEventQuery(event), orSuccess);
  EXPECT_EQ(orEventSynchronize(event), orSuccess);
  EXPECT_EQ(orEventDestroy(event), orSuccess);
}

TEST(EventCreateTest, RefusesNullAndUnknownFlags) {
  EXPECT_EQ(orEventCreate(nullptr), orErrorInvalidValue);
  EXPECT_EQ(orEventCreateWithFlags(nullptr, 0), orErrorInvalidValue);
  orEvent_t event = nullptr;
  EXPECT_EQ(orEventCreateWithFlags(&event, 42), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("42"));
  EXPECT_EQ(event, nullptr);
}

// In a child, because every later test would have to look at the many places.
TEST(EventCreateTest, FailsWhenTooManyEventsAreAliveAndRecovers) {
  auto body = [] {
    constexpr size_t kMoreThanFit = 10'000'000;
    std::vector<orEvent_t> events;
    orEvent_t event = nullptr;
    while (events.size() < kMoreThanFit && orEventCreate(&event) == orSuccess) {
      events.push_back(event);
    }
    EXPECT_EQ(orGetLastError(), orErrorMemoryAllocation);
    EXPECT_EQ(orEventCreate(&event), orErrorMemoryAllocation);
    EXPECT_EQ(orEventCreateWithFlags(&event, 0), orErrorMemoryAllocation);
    EXPECT_NE(lastDetail(), "");
    for (orEvent_t created : events) {
      EXPECT_EQ(orEventDestroy(created), orSuccess);
    }
    EXPECT_EQ(orEventCreate(&event), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(EventHandleTest, NullStaleAndMadeUpHandlesAreToldFromLiveOnes) {
  Stream stream;
  Event good(orEventEnableTiming);
  ASSERT_EQ(orEventRecord(good, stream), orSuccess);
  ASSERT_EQ(orEventSynchronize(good), orSuccess);
  for (orEvent_t bad : {orEvent_t{}, staleEvent(), madeUpEvent()}) {
    float time = 0;
    EXPECT_EQ(orEventDestroy(bad), orErrorInvalidHandle);
    EXPECT_EQ(orEventRecord(bad, stream), orErrorInvalidHandle);
    EXPECT_EQ(orEventQuery(bad), orErrorInvalidHandle);
    EXPECT_EQ(orEventSynchronize(bad), orErrorInvalidHandle);
    EXPECT_EQ(orEventElapsedTime(&time, bad, good), orErrorInvalidHandle);
    EXPECT_EQ(orEventElapsedTime(&time, good, bad), orErrorInvalidHandle);
    EXPECT_NE(lastDetail(), "");
  }
  EXPECT_EQ(orEventQuery(madeUpEvent()), orErrorInvalidHandle);
  EXPECT_TRUE(detailHas("0x1234"));
}

TEST(EventRecordTest, RefusesBadStreamsAndStreamsOfAnotherDevice) {
  Event event;
  orStream_t stale = nullptr;
  ASSERT_EQ(orStreamCreate(&stale), orSuccess);
  ASSERT_EQ(orStreamDestroy(stale), orSuccess);
  const auto madeUp = reinterpret_cast<orStream_t>(0x1234);
  for (orStream_t bad : {orStream_t{}, stale, madeUp}) {
    EXPECT_EQ(orEventRecord(event, bad), orErrorInvalidHandle);
  }
  EXPECT_TRUE(detailHas("0x1234"));
  EXPECT_EQ(orEventRecord(event, defaultStream(1)), orErrorInvalidHandle);
  EXPECT_TRUE(detailHas("device"));
}

TEST(EventRecordTest, StandsForTheWorkQueuedSoFarAndNoMore) {
  for (unsigned flags : {orEventDisableTiming, orEventEnableTiming}) {
    Stream stream;
    Event event(flags);
    bool ran = false;
    Gate first(stream);
    ASSERT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
    ASSERT_EQ(orEventRecord(event, stream), orSuccess);
    Gate second(stream);
    expectStaysPending(event);

    first.open();
    ASSERT_EQ(orEventSynchronize(event), orSuccess);
    EXPECT_TRUE(ran);
    EXPECT_EQ(orEventQuery(event), orSuccess);
    EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  }
}

TEST(EventRecordTest, OfAnIdleStreamIsDoneSoon) {
  Stream stream;
  for (unsigned flags : {orEventDisableTiming, orEventEnableTiming}) {
    Event event(flags);
    ASSERT_EQ(orEventRecord(event, stream), orSuccess);
    while (orEventQuery(event) == orErrorNotReady) {
      std::this_thread::yield();
    }
    EXPECT_EQ(orEventQuery(event), orSuccess);
  }
}

TEST(EventRecordTest, ALaterRecordReplacesTheEarlierOne) {
  Stream stream;
  Event event;
  ASSERT_EQ(orEventRecord(event, stream), orSuccess);
  ASSERT_EQ(orEventSynchronize(event), orSuccess);
  Gate gate(stream);
  EXPECT_EQ(orEventQuery(event), orSuccess);
  ASSERT_EQ(orEventRecord(event, stream), orSuccess);
  expectStaysPending(event);
  gate.open();
  EXPECT_EQ(orEventSynchronize(event), orSuccess);
}

TEST(EventRecordTest, ALaterRecordMayNameAnotherStream) {
  Stream busy, idle;
  Event event;
  Gate gate(busy);
  ASSERT_EQ(orEventRecord(event, busy), orSuccess);
  ASSERT_EQ(orEventRecord(event, idle), orSuccess);
  EXPECT_EQ(orEventSynchronize(event), orSuccess);
  EXPECT_EQ(orStreamQuery(busy), orErrorNotReady);
}

TEST(EventRecordTest, OutlivesTheStreamItWasRecordedIn) {
  orStream_t stream = nullptr;
  ASSERT_EQ(orStreamCreate(&stream), orSuccess);
  Event event;
  bool ran = false;
  Gate gate(stream);
  ASSERT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
  ASSERT_EQ(orEventRecord(event, stream), orSuccess);
  ASSERT_EQ(orStreamDestroy(stream), orSuccess);
  expectStaysPending(event);
  gate.open();
  ASSERT_EQ(orEventSynchronize(event), orSuccess);
  EXPECT_TRUE(ran);
}

TEST(EventRecordTest, NeedsRoomInTheQueueOnlyForATimestamp) {
  Stream stream;
  Event timed(orEventEnableTiming), untimed(orEventDisableTiming);
  orError_t filled = orSuccess, timedError = orSuccess;
  orError_t untimedError = orErrorNotReady;
  auto kernel = [&] {
    filled = fillQueue(stream);
    timedError = orEventRecord(timed, stream);
    untimedError = orEventRecord(untimed, stream);
  };
  ASSERT_EQ(orLaunchKernel(stream, kernel), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(filled, orErrorNotPermitted);
  EXPECT_EQ(timedError, orErrorNotPermitted);
  EXPECT_EQ(untimedError, orSuccess);
  EXPECT_EQ(orEventSynchronize(untimed), orSuccess);
  EXPECT_EQ(orStreamQuery(stream), orSuccess) << "it stands for all work";
}

TEST(EventSynchronizeTest, IsNotPermittedFromAKernelOrAHostFunction) {
  struct Seen {
    orEvent_t event;
    orError_t error;
  };
  Stream stream;
  Event event;
  ASSERT_EQ(orEventRecord(event, stream), orSuccess);
  Seen inKernel{event, orSuccess}, inHostFunction{event, orSuccess};
  auto synchronize = [](void* raw) {
    auto* seen = static_cast<Seen*>(raw);
    seen->error = orEventSynchronize(seen->event);
  };
  ASSERT_EQ(orLaunchKernel(stream, synchronize, &inKernel), orSuccess);
  ASSERT_EQ(orLaunchHostFunc(stream, synchronize, &inHostFunction), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(inKernel.error, orErrorNotPermitted);
  EXPECT_EQ(inHostFunction.error, orErrorNotPermitted);
}

// The plain variables in these tests are guarded by the events alone, so the
// thread sanitizer checks them too.
TEST(EventWaitTest, OrdersWorkAcrossStreams) {
  Stream producer, consumer;
  Event event;
  int value = 0, seen = 0;
  Gate gate(producer);
  ASSERT_EQ(orLaunchKernel(producer, [&] { value = 7; }), orSuccess);
  ASSERT_EQ(orEventRecord(event, producer), orSuccess);
  ASSERT_EQ(orStreamWaitEvent(consumer, event, 0), orSuccess);
  ASSERT_EQ(orLaunchKernel(consumer, [&] { seen = value; }), orSuccess);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(orStreamQuery(consumer), orErrorNotReady);
    std::this_thread::yield();
  }
  gate.open();
  ASSERT_EQ(orStreamSynchronize(consumer), orSuccess);
  EXPECT_EQ(seen, 7);
}

TEST(EventWaitTest, OrdersWorkAcrossDevices) {
  OnDevice one(1);
  Stream producer;
  Event event;
  OnDevice zero(0);
  Stream consumer;
  int value = 0, seen = 0;
  Gate gate(producer);
  ASSERT_EQ(orLaunchKernel(producer, [&] { value = 7; }), orSuccess);
  ASSERT_EQ(orEventRecord(event, producer), orSuccess);
  ASSERT_EQ(orStreamWaitEvent(consumer, event, 0), orSuccess);
  ASSERT_EQ(orLaunchKernel(consumer, [&] { seen = value; }), orSuccess);
  EXPECT_EQ(orStreamQuery(consumer), orErrorNotReady);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(consumer), orSuccess);
  EXPECT_EQ(seen, 7);
}

TEST(EventWaitTest, IsForTheRecordOfTheCallNotForLaterOnes) {
  Stream producer, consumer;
  Event event;
  int value = 0, seen = 0;
  Gate first(producer);
  ASSERT_EQ(orLaunchKernel(producer, [&] { value = 7; }), orSuccess);
  ASSERT_EQ(orEventRecord(event, producer), orSuccess);
  ASSERT_EQ(orStreamWaitEvent(consumer, event, 0), orSuccess);
  ASSERT_EQ(orLaunchKernel(consumer, [&] { seen = value; }), orSuccess);
  Gate second(producer);
  ASSERT_EQ(orEventRecord(event, producer), orSuccess);
  EXPECT_EQ(orStreamQuery(consumer), orErrorNotReady);

  first.open();
  ASSERT_EQ(orStreamSynchronize(consumer), orSuccess);
  EXPECT_EQ(seen, 7);
  EXPECT_EQ(orEventQuery(event), orErrorNotReady);
}

TEST(EventWaitTest, HoldsAfterTheEventWasDestroyed) {
  Stream producer, consumer;
  orEvent_t event = nullptr;
  ASSERT_EQ(orEventCreate(&event), orSuccess);
  int value = 0, seen = 0;
  Gate gate(producer);
  ASSERT_EQ(orLaunchKernel(producer, [&] { value = 7; }), orSuccess);
  ASSERT_EQ(orEventRecord(event, producer), orSuccess);
  ASSERT_EQ(orStreamWaitEvent(consumer, event, 0), orSuccess);
  ASSERT_EQ(orEventDestroy(event), orSuccess);
  ASSERT_EQ(orLaunchKernel(consumer, [&] { seen = value; }), orSuccess);
  EXPECT_EQ(orStreamQuery(consumer), orErrorNotReady);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(consumer), orSuccess);
  EXPECT_EQ(seen, 7);
}

TEST(EventWaitTest, ForAnEventThatWasNeverRecordedIsNoWait) {
  Stream stream;
  Event event;
  ASSERT_EQ(orStreamWaitEvent(stream, event, 0), orSuccess);
  bool ran = false;
  ASSERT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_TRUE(ran);
}

TEST(EventWaitTest, InTheStreamOfTheRecordItselfIsNoDeadlock) {
  Stream stream;
  Event event(orEventEnableTiming);
  bool ran = false;
  Gate gate(stream);
  ASSERT_EQ(orEventRecord(event, stream), orSuccess);
  ASSERT_EQ(orStreamWaitEvent(stream, event, 0), orSuccess);
  ASSERT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_TRUE(ran);
}

TEST(EventTimeTest, IsAsLongAsTheWorkBetweenAndNegativeBackwards) {
  Stream stream;
  Event start(orEventEnableTiming), end(orEventEnableTiming);
  ASSERT_EQ(orEventRecord(start, stream), orSuccess);
  auto spin = [] {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::milliseconds(2);
    while (Clock::now() < until) {
    }
  };
  ASSERT_EQ(orLaunchKernel(stream, spin), orSuccess);
  ASSERT_EQ(orEventRecord(end, stream), orSuccess);
  ASSERT_EQ(orEventSynchronize(end), orSuccess);

  float forward = 0, backward = 0, none = 1;
  ASSERT_EQ(orEventElapsedTime(&forward, start, end), orSuccess);
  ASSERT_EQ(orEventElapsedTime(&backward, end, start), orSuccess);
  ASSERT_EQ(orEventElapsedTime(&none, start, start), orSuccess);
  EXPECT_GE(forward, 1.999f);
  EXPECT_FLOAT_EQ(backward, -forward);
  EXPECT_EQ(none, 0);
}

TEST(EventTimeTest, IsRefusedForNullAndForEventsWithoutATime) {
  Stream stream;
  Event timed(orEventEnableTiming), untimed(orEventDisableTiming);
  Event unrecorded(orEventEnableTiming);
  ASSERT_EQ(orEventRecord(timed, stream), orSuccess);
  ASSERT_EQ(orEventRecord(untimed, stream), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  float time = 0;
  EXPECT_EQ(orEventElapsedTime(nullptr, timed, timed), orErrorInvalidValue);
  for (orEvent_t bad : {orEvent_t{untimed}, orEvent_t{unrecorded}}) {
    EXPECT_EQ(orEventElapsedTime(&time, timed, bad), orErrorInvalidHandle);
    EXPECT_EQ(orEventElapsedTime(&time, bad, timed), orErrorInvalidHandle);
    EXPECT_NE(lastDetail(), "");
  }
}

TEST(EventTimeTest, IsRefusedAcrossDevices) {
  Event here(orEventEnableTiming);
  ASSERT_EQ(orEventRecord(here, defaultStream(0)), orSuccess);
  ASSERT_EQ(orEventSynchronize(here), orSuccess);
  OnDevice one(1);
  Event there(orEventEnableTiming);
  ASSERT_EQ(orEventRecord(there, defaultStream(1)), orSuccess);
  ASSERT_EQ(orEventSynchronize(there), orSuccess);
  float time = 0;
  EXPECT_EQ(orEventElapsedTime(&time, here, there), orErrorInvalidHandle);
  EXPECT_TRUE(detailHas("device"));
}

TEST(EventTimeTest, IsNotReadyWhileTheWorkOfOneEventRuns) {
  Stream stream;
  Event done(orEventEnableTiming), pending(orEventEnableTiming);
  ASSERT_EQ(orEventRecord(done, stream), orSuccess);
  ASSERT_EQ(orEventSynchronize(done), orSuccess);
  Gate gate(stream);
  ASSERT_EQ(orEventRecord(pending, stream), orSuccess);
  float time = 0;
  EXPECT_EQ(orEventElapsedTime(&time, done, pending), orErrorNotReady);
  EXPECT_EQ(orEventElapsedTime(&time, pending, done), orErrorNotReady);
}

} // namespace
} // namespace openreg::testing
