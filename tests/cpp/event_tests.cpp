// Events as PyTorch sees them.
#include "support.h"

#include "runtime/OpenRegEvent.h"

namespace c10::openreg::testing {
namespace {

class EventTest : public DeviceTest {
 protected:
  const OpenRegStream stream = getStreamFromPool(0, 0);
  const OpenRegStream other = getStreamFromPool(0, 1);
};

bool isAlive(orEvent_t event) {
  const orError_t status = orEventQuery(event);
  orGetLastError();
  return status != orErrorInvalidHandle;
}

TEST_F(EventTest, AnEventIsMadeByItsFirstRecord) {
  OpenRegEvent event;
  EXPECT_FALSE(event.isCreated());
  EXPECT_EQ(event.event(), nullptr);
  EXPECT_EQ(event.device_index(), -1);

  event.record(other);
  EXPECT_TRUE(event.isCreated());
  EXPECT_EQ(event.device_index(), 1);
  EXPECT_EQ(current_device(), 0);
  const orEvent_t made = event.event();
  event.record(other);
  EXPECT_EQ(event.event(), made);
}

TEST_F(EventTest, AnEventThatWasNotRecordedIsDone) {
  const OpenRegEvent event;
  EXPECT_TRUE(event.query());
  event.synchronize();
  event.block(stream);
  EXPECT_TRUE(stream.query());
}

TEST_F(EventTest, AnEventIsDoneWhenTheWorkBeforeItIs) {
  OpenRegEvent event;
  Gate gate(stream);
  event.record(stream);
  EXPECT_FALSE(event.query());
  EXPECT_TRUE(waitsForGate(gate, [&] { event.synchronize(); }));
  EXPECT_TRUE(event.query());
}

TEST_F(EventTest, ABlockedStreamWaitsForTheEvent) {
  OpenRegEvent event;
  Gate gate(stream);
  event.record(stream);
  event.block(other);
  EXPECT_FALSE(other.query());
  gate.open();
  other.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_F(EventTest, AnEventBelongsToTheDeviceItWasRecordedOnFirst) {
  OpenRegEvent event;
  event.record(stream);
  const std::string message = messageOf([&] { event.record(other); });
  EXPECT_TRUE(has(message, "the event was recorded on openreg:0"));
  EXPECT_EQ(event.device_index(), 0);
}

TEST_F(EventTest, TheEventGoesWithTheObject) {
  orEvent_t handle = nullptr;
  {
    OpenRegEvent event;
    event.record(stream);
    handle = event.event();
    EXPECT_TRUE(isAlive(handle));
  }
  EXPECT_FALSE(isAlive(handle));
}

TEST_F(EventTest, MovingHandsTheEventOver) {
  OpenRegEvent first(orEventEnableTiming);
  first.record(other);
  const orEvent_t handle = first.event();

  OpenRegEvent second(std::move(first));
  EXPECT_EQ(second.event(), handle);
  EXPECT_EQ(second.device_index(), 1);
  EXPECT_FALSE(first.isCreated()); // NOLINT(bugprone-use-after-move)

  OpenRegEvent third;
  third = std::move(second);
  EXPECT_EQ(third.event(), handle);
  EXPECT_TRUE(isAlive(handle));
}

TEST_F(EventTest, MovingOverARecordedEventLosesNone) {
  orEvent_t one = nullptr, two = nullptr;
  {
    OpenRegEvent first, second;
    first.record(stream);
    second.record(stream);
    one = first.event();
    two = second.event();
    first = std::move(second);
    EXPECT_EQ(first.event(), two);
  }
  EXPECT_FALSE(isAlive(one));
  EXPECT_FALSE(isAlive(two));
}

TEST_F(EventTest, AMovedEventKeepsItsFlags) {
  OpenRegEvent timed(orEventEnableTiming);
  OpenRegEvent start(std::move(timed)), end(orEventEnableTiming);
  start.record(stream);
  end.record(stream);
  end.synchronize();
  EXPECT_GE(start.elapsed_time(end), 0);
}

TEST_F(EventTest, ElapsedTimeNeedsBothRecorded) {
  OpenRegEvent start(orEventEnableTiming), end(orEventEnableTiming);
  EXPECT_THROW(start.elapsed_time(end), ValueError);
  start.record(stream);
  EXPECT_THROW(start.elapsed_time(end), ValueError);
  EXPECT_THROW(end.elapsed_time(start), ValueError);
}

TEST_F(EventTest, ElapsedTimeNeedsTiming) {
  OpenRegEvent start(orEventEnableTiming), end;
  start.record(stream);
  end.record(stream);
  end.synchronize();
  EXPECT_EQ(codeOf([&] { start.elapsed_time(end); }), orErrorInvalidHandle);
}

TEST_F(EventTest, ElapsedTimeNeedsBothFinished) {
  OpenRegEvent start(orEventEnableTiming), end(orEventEnableTiming);
  start.record(stream);
  start.synchronize();
  Gate gate(stream);
  end.record(stream);
  EXPECT_EQ(codeOf([&] { start.elapsed_time(end); }), orErrorNotReady);
}

TEST_F(EventTest, ElapsedTimeNeedsOneDevice) {
  OpenRegEvent start(orEventEnableTiming), end(orEventEnableTiming);
  start.record(stream);
  end.record(other);
  start.synchronize();
  end.synchronize();
  EXPECT_EQ(codeOf([&] { start.elapsed_time(end); }), orErrorInvalidHandle);
}

TEST_F(EventTest, AFailedRecordLeavesTheEventAsItWas) {
  OpenRegEvent event;
  const OpenRegStream wrong(Stream(
      Stream::UNSAFE, device(0), reinterpret_cast<StreamId>(madeUp<void*>())));
  EXPECT_EQ(codeOf([&] { event.record(wrong); }), orErrorInvalidHandle);
  EXPECT_TRUE(event.query());
  event.record(stream);
  event.synchronize();
}

TEST_F(EventTest, HandlesCanBeAskedToo) {
  EXPECT_EQ(
      codeOf([] { queryEvent(madeUp<orEvent_t>()); }), orErrorInvalidHandle);
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
}

} // namespace
} // namespace c10::openreg::testing
