// Every method of OpenRegGuardImpl, and the guards of c10 over it.
#include "support.h"

#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegEvent.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>

namespace c10::openreg::testing {
namespace {

class GuardTest : public DeviceTest {
 protected:
  const OpenRegGuardImpl guard;
};

// --- devices ------------------------------------------------------------------

TEST_F(GuardTest, PyTorchFindsTheGuardByItsDeviceType) {
  EXPECT_EQ(guard.type(), DeviceType::PrivateUse1);
  const auto* found = c10::impl::getDeviceGuardImpl(DeviceType::PrivateUse1);
  EXPECT_NE(dynamic_cast<const OpenRegGuardImpl*>(found), nullptr);
}

TEST_F(GuardTest, AGuardForAnotherDeviceTypeIsRefused) {
  EXPECT_TRUE(
      has(messageOf([] { OpenRegGuardImpl(DeviceType::CPU); }),
          "not a device of ours: cpu"));
}

TEST_F(GuardTest, ExchangeDeviceReturnsTheDeviceBefore) {
  EXPECT_EQ(guard.exchangeDevice(device(1)), device(0));
  EXPECT_EQ(guard.getDevice(), device(1));
  EXPECT_EQ(guard.exchangeDevice(device(1)), device(1));
  EXPECT_EQ(guard.exchangeDevice(device(0)), device(1));
}

TEST_F(GuardTest, TheCurrentDeviceIsOneOfTheThread) {
  guard.setDevice(device(1));
  Device seen = device(1);
  std::thread([&] { seen = guard.getDevice(); }).join();
  EXPECT_EQ(seen, device(0));
}

TEST_F(GuardTest, DevicesThatDoNotExistAreRefusedAndNothingChanges) {
  guard.setDevice(device(1));
  for (const int index : {2, 63, 127}) {
    EXPECT_EQ(
        codeOf([&] { guard.setDevice(device(index)); }), orErrorInvalidDevice);
    EXPECT_EQ(
        codeOf([&] { guard.exchangeDevice(device(index)); }),
        orErrorInvalidDevice);
  }
  EXPECT_EQ(guard.getDevice(), device(1));
}

TEST_F(GuardTest, DevicesOfAnotherTypeAreRefused) {
  const Device cpu(DeviceType::CPU);
  EXPECT_THROW(guard.setDevice(cpu), Error);
  EXPECT_THROW(guard.exchangeDevice(cpu), Error);
}

TEST_F(GuardTest, UncheckedSetDeviceSets) {
  guard.uncheckedSetDevice(device(1));
  EXPECT_EQ(guard.getDevice(), device(1));
}

TEST_F(GuardTest, UncheckedSetDeviceWarnsOfADeviceThatDoesNotExist) {
  Warnings warnings;
  guard.uncheckedSetDevice(device(7));
  guard.uncheckedSetDevice(Device(DeviceType::PrivateUse1, -1));
  ASSERT_EQ(warnings.messages.size(), 2u);
  EXPECT_TRUE(has(warnings.messages[0], "invalid device ordinal"));
  EXPECT_TRUE(has(warnings.messages[0], "7"));
  EXPECT_EQ(guard.getDevice(), device(0));
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
}

TEST_F(GuardTest, UncheckedSetDeviceDoesNotLetAnErrorOfAWarningOut) {
  const WarningsThrow handler;
  guard.uncheckedSetDevice(device(7)); // would end the process
  guard.destroyEvent(madeUp<void*>(), 0);
  EXPECT_EQ(guard.getDevice(), device(0));
}

TEST_F(GuardTest, DeviceCountIsThatOfTheDriver) {
  int count = 0;
  ASSERT_EQ(orGetDeviceCount(&count), orSuccess);
  EXPECT_EQ(guard.deviceCount(), count);
}

TEST_F(GuardTest, WhoRunsKernelsIsWhatLibopenregHasRead) {
  const auto isTold = [](const char* value, bool expected) {
    return [value, expected] {
      setenv("OPENREG_EXECUTOR", value, 1);
      CHILD_REQUIRE(runs_in_device_processes() == expected);
      setenv("OPENREG_EXECUTOR", expected ? "thread" : "process", 1);
      return runs_in_device_processes() == expected;
    };
  };
  EXPECT_CHILD_SUCCEEDS(isTold("thread", false));
  EXPECT_CHILD_SUCCEEDS(isTold("process", true));
  EXPECT_CHILD_SUCCEEDS(isTold("nonsense", false)); // whoever uses it hears
}

TEST_F(GuardTest, EveryDtypeIsSupported) {
  const auto bits = [](const DeviceCapability& capability) {
    return capability.capability_data.capability_bits;
  };
  EXPECT_EQ(bits(guard.getDeviceCapability(device(1))), bits({}));
  EXPECT_NO_THROW(guard.getDeviceCapability(Device(DeviceType::PrivateUse1)));
  EXPECT_THROW(guard.getDeviceCapability(device(2)), Error);
}

TEST_F(GuardTest, SynchronizeDeviceWaitsForEveryStreamOfTheDevice) {
  const Stream stream = guard.getNewStream(device(1));
  Gate gate(OpenRegStream(stream).stream());
  guard.synchronizeDevice(0); // another device: returns at once
  EXPECT_FALSE(guard.queryStream(stream));
  EXPECT_TRUE(waitsForGate(gate, [&] { guard.synchronizeDevice(1); }));
  EXPECT_EQ(guard.getDevice(), device(0));
}

TEST_F(GuardTest, SynchronizeDeviceTakesTheCurrentDeviceForMinusOne) {
  guard.setDevice(device(1));
  Gate gate(OpenRegStream(guard.getNewStream(device(1))).stream());
  EXPECT_TRUE(waitsForGate(gate, [&] { guard.synchronizeDevice(-1); }));
  EXPECT_THROW(guard.synchronizeDevice(2), Error);
}

// --- streams ------------------------------------------------------------------

TEST_F(GuardTest, TheCurrentStreamIsTheDefaultOneAtFirst) {
  EXPECT_EQ(guard.getStream(device(1)), guard.getDefaultStream(device(1)));
  EXPECT_EQ(guard.getDefaultStream(device(1)).id(), 0);
  EXPECT_THROW(guard.getStream(device(2)), Error);
  EXPECT_THROW(guard.getDefaultStream(device(2)), Error);
}

TEST_F(GuardTest, ExchangeStreamSetsTheStreamOfItsDeviceOnly) {
  const Stream stream = guard.getNewStream(device(1));
  const Stream before = guard.exchangeStream(stream);
  EXPECT_EQ(before, guard.getDefaultStream(device(1)));
  EXPECT_EQ(guard.getStream(device(1)), stream);
  EXPECT_EQ(guard.getStream(device(0)), guard.getDefaultStream(device(0)));
  EXPECT_EQ(guard.getDevice(), device(0));
  EXPECT_EQ(guard.exchangeStream(before), stream);
}

TEST_F(GuardTest, NewStreamsHaveThePriorityAskedFor) {
  EXPECT_EQ(OpenRegStream(guard.getNewStream(device(0), -1)).priority(), -1);
  const auto [least, greatest] = OpenRegStream::priority_range();
  EXPECT_EQ(
      OpenRegStream(guard.getStreamFromGlobalPool(device(0), true)).priority(),
      greatest);
  EXPECT_EQ(
      OpenRegStream(guard.getStreamFromGlobalPool(device(0), false)).priority(),
      least);
  EXPECT_THROW(guard.getNewStream(device(2)), Error);
}

TEST_F(GuardTest, TheNativeHandleIsTheOneOfLibopenreg) {
  const Stream stream = guard.getNewStream(device(1));
  auto* handle = static_cast<orStream_t>(guard.getStreamNativeHandle(stream));
  int owner = -1;
  ASSERT_EQ(orStreamGetDevice(handle, &owner), orSuccess);
  EXPECT_EQ(owner, 1);
  orStream_t expected = nullptr;
  ASSERT_EQ(orDeviceGetDefaultStream(&expected, 1), orSuccess);
  EXPECT_EQ(
      guard.getStreamNativeHandle(guard.getDefaultStream(device(1))), expected);
}

TEST_F(GuardTest, AStreamIsDoneWhenItsLastTaskHasRun) {
  const Stream stream = guard.getNewStream(device(0));
  Gate gate(OpenRegStream(stream).stream());
  EXPECT_FALSE(guard.queryStream(stream));
  EXPECT_TRUE(waitsForGate(gate, [&] { guard.synchronizeStream(stream); }));
  EXPECT_TRUE(guard.queryStream(stream));
}

TEST_F(GuardTest, StreamsThatNameNothingAreRefused) {
  const Stream wrong(
      Stream::UNSAFE, device(0), reinterpret_cast<StreamId>(madeUp<void*>()));
  EXPECT_EQ(codeOf([&] { guard.queryStream(wrong); }), orErrorInvalidHandle);
  EXPECT_EQ(
      codeOf([&] { guard.synchronizeStream(wrong); }), orErrorInvalidHandle);
  const Stream host(Stream::DEFAULT, Device(DeviceType::CPU));
  EXPECT_TRUE(
      has(messageOf([&] { guard.queryStream(host); }),
          "expected a stream of an openreg device"));
  EXPECT_THROW(guard.exchangeStream(host), Error);
}

TEST_F(GuardTest, MemoryRecordedOnAStreamIsNotReusedBeforeThatHasRun) {
  const Stream side = guard.getNewStream(device(0));
  auto& allocator = getOpenRegDeviceAllocator();
  DataPtr data = allocator.allocate(512);
  void* address = data.get();
  Gate gate(OpenRegStream(side).stream());
  guard.recordDataPtrOnStream(data, side);
  data.clear();
  DataPtr second = allocator.allocate(512);
  EXPECT_NE(second.get(), address);

  gate.open();
  guard.synchronizeStream(side);
  DataPtr third = allocator.allocate(512);
  EXPECT_EQ(third.get(), address);
}

// --- events -------------------------------------------------------------------

class GuardEventTest : public GuardTest {
 protected:
  ~GuardEventTest() override {
    guard.destroyEvent(event, 0);
  }

  void* event = nullptr;
  const Stream stream = guard.getNewStream(device(0));
};

TEST_F(GuardEventTest, AnEventIsMadeByItsFirstRecord) {
  guard.record(&event, stream, -1, EventFlag::PYTORCH_DEFAULT);
  void* made = event;
  ASSERT_NE(made, nullptr);
  guard.record(&event, stream, 0, EventFlag::PYTORCH_DEFAULT);
  EXPECT_EQ(event, made);
}

TEST_F(GuardEventTest, AnEventOfAnotherDeviceIsNotRecorded) {
  EXPECT_TRUE(has(
      messageOf(
          [&] { guard.record(&event, stream, 1, EventFlag::PYTORCH_DEFAULT); }),
      "Event device index 1 does not match recording stream's device index 0"));
  EXPECT_EQ(event, nullptr);
}

TEST_F(GuardEventTest, AnEventThatWasNotRecordedIsDone) {
  EXPECT_TRUE(guard.queryEvent(nullptr));
  guard.synchronizeEvent(nullptr);
  guard.block(nullptr, stream);
  EXPECT_TRUE(guard.queryStream(stream));
}

TEST_F(GuardEventTest, AnEventIsDoneWhenTheWorkBeforeItIs) {
  Gate gate(OpenRegStream(stream).stream());
  guard.record(&event, stream, 0, EventFlag::PYTORCH_DEFAULT);
  EXPECT_FALSE(guard.queryEvent(event));
  EXPECT_TRUE(waitsForGate(gate, [&] { guard.synchronizeEvent(event); }));
  EXPECT_TRUE(guard.queryEvent(event));
}

TEST_F(GuardEventTest, ABlockedStreamWaitsAlsoOnAnotherDevice) {
  const Stream later = guard.getNewStream(device(1));
  Gate gate(OpenRegStream(stream).stream());
  guard.record(&event, stream, 0, EventFlag::PYTORCH_DEFAULT);
  guard.block(event, later);
  EXPECT_FALSE(guard.queryStream(later));
  gate.open();
  guard.synchronizeStream(later);
  EXPECT_TRUE(guard.queryStream(stream));
}

TEST_F(GuardEventTest, EventsWithTimingTellTheTimeBetween) {
  void* end = nullptr;
  guard.record(&event, stream, 0, EventFlag::BACKEND_DEFAULT);
  guard.record(&end, stream, 0, EventFlag::BACKEND_DEFAULT);
  guard.synchronizeEvent(end);
  EXPECT_GE(guard.elapsedTime(event, end, 0), 0);
  EXPECT_LE(guard.elapsedTime(end, event, 0), 0);
  guard.destroyEvent(end, 0);
}

TEST_F(GuardEventTest, EventsWithoutTimingTellNone) {
  guard.record(&event, stream, 0, EventFlag::PYTORCH_DEFAULT);
  guard.synchronizeEvent(event);
  EXPECT_EQ(
      codeOf([&] { guard.elapsedTime(event, event, 0); }),
      orErrorInvalidHandle);
  EXPECT_EQ(
      codeOf([&] { guard.elapsedTime(nullptr, event, 0); }),
      orErrorInvalidHandle);
}

TEST_F(GuardEventTest, EventsThatNameNothingAreRefused) {
  void* wrong = madeUp<void*>();
  EXPECT_EQ(codeOf([&] { guard.queryEvent(wrong); }), orErrorInvalidHandle);
  EXPECT_EQ(
      codeOf([&] { guard.synchronizeEvent(wrong); }), orErrorInvalidHandle);
  EXPECT_EQ(codeOf([&] { guard.block(wrong, stream); }), orErrorInvalidHandle);
}

TEST_F(GuardEventTest, AnEventOfPyTorchAdoptsAHandle) {
  const orEvent_t handle = createEvent(1, orEventInterprocess);
  {
    Event adopting(DeviceType::PrivateUse1);
    adoptEvent(adopting, handle, 1);
    EXPECT_EQ(adopting.eventId(), handle);
    EXPECT_EQ(adopting.device_index(), 1);
    EXPECT_TRUE(adopting.query());
    adopting.record(getDefaultOpenRegStream(1));
    EXPECT_EQ(adopting.eventId(), handle);
    // It has one, so it takes no other.
    EXPECT_EQ(
        codeOf([&] { adoptEvent(adopting, handle, 1); }), orErrorInvalidHandle);
  }
  EXPECT_EQ(orEventQuery(handle), orErrorInvalidHandle);
  orGetLastError();
}

TEST_F(GuardEventTest, AHandleThatNamesNothingIsNotAdopted) {
  Event adopting(DeviceType::PrivateUse1);
  EXPECT_EQ(
      codeOf([&] { adoptEvent(adopting, madeUp<orEvent_t>(), 0); }),
      orErrorInvalidHandle);
  // The next one is recorded as ever: nothing is left behind.
  Event next(DeviceType::PrivateUse1);
  next.record(getDefaultOpenRegStream(0));
  EXPECT_NE(next.eventId(), madeUp<orEvent_t>());
  next.synchronize();
}

TEST_F(GuardEventTest, DestroyEventNeverThrows) {
  guard.destroyEvent(nullptr, 0);
  guard.record(&event, stream, 0, EventFlag::PYTORCH_DEFAULT);
  guard.destroyEvent(event, 0);

  Warnings warnings;
  guard.destroyEvent(event, 0); // twice
  guard.destroyEvent(madeUp<void*>(), 99);
  EXPECT_EQ(warnings.messages.size(), 2u);
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
  event = nullptr;
}

// --- the guards of c10 --------------------------------------------------------

TEST_F(GuardTest, ADeviceGuardPutsTheDeviceBack) {
  {
    const DeviceGuard outer(device(1));
    EXPECT_EQ(current_device(), 1);
    const OpenRegGuard inner(device(0));
    EXPECT_EQ(current_device(), 0);
  }
  EXPECT_EQ(current_device(), 0);
}

TEST_F(GuardTest, AStreamGuardPutsDeviceAndStreamBack) {
  const Stream stream = guard.getNewStream(device(1));
  {
    const OpenRegStreamGuard scope(stream);
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(guard.getStream(device(1)), stream);
  }
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(guard.getStream(device(1)), guard.getDefaultStream(device(1)));
}

TEST_F(GuardTest, EventsOfC10WorkThroughTheGuard) {
  const Stream stream = guard.getNewStream(device(1));
  Event event(DeviceType::PrivateUse1);
  Gate gate(OpenRegStream(stream).stream());
  event.record(stream);
  EXPECT_FALSE(event.query());
  EXPECT_TRUE(waitsForGate(gate, [&] { event.synchronize(); }));
  EXPECT_EQ(event.device_index(), 1);
}

// --- a broken device ----------------------------------------------------------

// In a child, because a reset takes the allocator's memory away.
TEST_F(GuardTest, WhatDestructorsCallDoesNotThrowOnABrokenDevice) {
  EXPECT_CHILD_SUCCEEDS([] {
    const OpenRegGuardImpl guard;
    void* event = nullptr;
    const Stream stream = guard.getNewStream(device(0));
    guard.record(&event, stream, 0, EventFlag::PYTORCH_DEFAULT);
    DataPtr data = getOpenRegDeviceAllocator().allocate(512);
    getOpenRegDeviceAllocator().recordStream(data, stream);
    const auto fail = [] { orKernelFail(orErrorAssert, "on purpose"); };
    CHILD_REQUIRE(
        orLaunchKernel(::openreg::testing::defaultStream(), fail) == orSuccess);
    CHILD_REQUIRE(orDeviceSynchronize() == orErrorAssert);

    guard.uncheckedSetDevice(device(1));
    guard.uncheckedSetDevice(device(0));
    guard.destroyEvent(event, 0);
    data.clear();
    CHILD_REQUIRE(guard.deviceCount() > 0);
    CHILD_REQUIRE(codeOf([&] { guard.synchronizeDevice(0); }) == orErrorAssert);
    return true;
  });
}

} // namespace
} // namespace c10::openreg::testing
