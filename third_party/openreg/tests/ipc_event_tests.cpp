// Events shared by two processes.
#include "two_processes.h"

namespace openreg::testing {
namespace {

orIpcEventHandle_t handleOf(orEvent_t event) {
  orIpcEventHandle_t handle{};
  CHILD_REQUIRE(orIpcGetEventHandle(&handle, event) == orSuccess);
  return handle;
}

orEvent_t opened(const orIpcEventHandle_t& handle) {
  orEvent_t event = nullptr;
  CHILD_REQUIRE(orIpcOpenEventHandle(&event, handle) == orSuccess);
  return event;
}

// A process that records an event behind a gate, which it opens when told.
void recordBehindGate(Channel& channel) {
  Stream stream;
  Event event(orEventInterprocess);
  Gate gate(stream);
  CHILD_REQUIRE(orEventRecord(event, stream) == orSuccess);
  channel.send(handleOf(event));
  channel.await();
  gate.open();
  CHILD_REQUIRE(orEventSynchronize(event) == orSuccess);
  channel.await();
}

TEST(IpcEventTest, AStreamWaitsForWorkOfTheOtherProcess) {
  auto body = [] {
    const Peer peer(recordBehindGate);
    Channel channel = peer.channel();
    const orEvent_t event = opened(channel.receive<orIpcEventHandle_t>());
    Stream stream;
    std::atomic<bool> ran = false;
    EXPECT_EQ(orStreamWaitEvent(stream, event, 0), orSuccess);
    EXPECT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
    EXPECT_EQ(orEventQuery(event), orErrorNotReady);
    EXPECT_TRUE(detailHas("process " + std::to_string(peer.process())));
    EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
    EXPECT_FALSE(ran);
    channel.signal();
    EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
    EXPECT_TRUE(ran);
    EXPECT_EQ(orEventQuery(event), orSuccess);
    EXPECT_EQ(orEventSynchronize(event), orSuccess);
    channel.signal();
    EXPECT_TRUE(peer.join());
    EXPECT_EQ(orEventDestroy(event), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcEventTest, EitherProcessRecordsAndTheLatestRecordCounts) {
  auto body = [] {
    const Peer peer([](Channel& channel) {
      const orEvent_t event = opened(channel.receive<orIpcEventHandle_t>());
      EXPECT_EQ(orEventQuery(event), orSuccess) << "not recorded yet";
      Stream stream;
      Gate gate(stream);
      CHILD_REQUIRE(orEventRecord(event, stream) == orSuccess);
      EXPECT_EQ(orEventQuery(event), orErrorNotReady);
      channel.signal();
      channel.await();
      EXPECT_EQ(orEventQuery(event), orErrorNotReady) << "the other's record";
      channel.signal();
      EXPECT_EQ(orEventSynchronize(event), orSuccess);
      channel.signal();
      channel.await();
    });
    Channel channel = peer.channel();
    Event event(orEventInterprocess);
    channel.send(handleOf(event));
    channel.await();
    EXPECT_EQ(orEventQuery(event), orErrorNotReady);
    {
      Stream stream;
      Gate gate(stream);
      EXPECT_EQ(orEventRecord(event, stream), orSuccess);
      channel.signal();
      channel.await();
      gate.open();
      EXPECT_EQ(orEventSynchronize(event), orSuccess);
    }
    channel.await();
    channel.signal();
    EXPECT_TRUE(peer.join());
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcEventTest, WhoWaitsOnTheHostIsToldThatTheOtherProcessEnded) {
  auto body = [] {
    const Peer peer(recordBehindGate);
    const orEvent_t event =
        opened(peer.channel().receive<orIpcEventHandle_t>());
    EXPECT_EQ(orEventQuery(event), orErrorNotReady);
    peer.kill();
    EXPECT_EQ(orEventSynchronize(event), orErrorLaunchFailure);
    EXPECT_TRUE(detailHas(
        "process " + std::to_string(peer.process()) +
        ", which recorded the event, ended"));
    EXPECT_EQ(orEventQuery(event), orErrorLaunchFailure);
    EXPECT_EQ(orDeviceSynchronize(), orSuccess) << "the device is well";

    Stream stream;
    EXPECT_EQ(orEventRecord(event, stream), orSuccess);
    EXPECT_EQ(orEventSynchronize(event), orSuccess);
    EXPECT_EQ(orEventDestroy(event), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcEventTest, AStreamThatWaitsForAProcessThatEndsBreaksItsDevice) {
  auto body = [] {
    const Peer peer(recordBehindGate);
    const orEvent_t event =
        opened(peer.channel().receive<orIpcEventHandle_t>());
    Stream stream;
    EXPECT_EQ(orStreamWaitEvent(stream, event, 0), orSuccess);
    std::atomic<bool> ran = false;
    EXPECT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
    EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
    peer.kill();
    EXPECT_EQ(orStreamSynchronize(stream), orErrorLaunchFailure);
    EXPECT_TRUE(detailHas("ended before the work had finished"));
    EXPECT_FALSE(ran);
    EXPECT_EQ(orDeviceReset(), orSuccess);
    EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
    EXPECT_EQ(orEventDestroy(event), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcEventTest, ARecordThatHasFinishedOutlivesItsProcess) {
  auto body = [] {
    const Peer peer(recordBehindGate);
    Channel channel = peer.channel();
    const orEvent_t event = opened(channel.receive<orIpcEventHandle_t>());
    channel.signal();
    EXPECT_EQ(orEventSynchronize(event), orSuccess);
    peer.kill();
    EXPECT_EQ(orEventQuery(event), orSuccess);
    EXPECT_EQ(orEventSynchronize(event), orSuccess);
    Stream stream;
    EXPECT_EQ(orStreamWaitEvent(stream, event, 0), orSuccess);
    EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcEventTest, AnEventIsOverForAllWhenItsOwnerDestroysIt) {
  auto body = [] {
    const Peer peer([](Channel& channel) {
      orEvent_t event = nullptr;
      CHILD_REQUIRE(
          orEventCreateWithFlags(&event, orEventInterprocess) == orSuccess);
      channel.send(handleOf(event));
      channel.await();
      CHILD_REQUIRE(orEventDestroy(event) == orSuccess);
      channel.signal();
      channel.await();
    });
    Channel channel = peer.channel();
    const auto handle = channel.receive<orIpcEventHandle_t>();
    const orEvent_t event = opened(handle);
    channel.signal();
    channel.await();
    EXPECT_EQ(orEventQuery(event), orSuccess);
    EXPECT_EQ(orEventSynchronize(event), orSuccess);
    orEvent_t again = nullptr;
    EXPECT_EQ(orIpcOpenEventHandle(&again, handle), orErrorInvalidHandle);
    EXPECT_TRUE(detailHas("destroyed"));
    channel.signal();
    EXPECT_TRUE(peer.join());
    EXPECT_EQ(
        orIpcOpenEventHandle(&again, handle), orErrorMapBufferObjectFailed);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcEventTest, AWaitForTheOtherProcessObeysTheTimeout) {
  auto body = [] {
    const Peer peer(recordBehindGate);
    setenv("OPENREG_WAIT_TIMEOUT", "0.05", 1);
    Channel channel = peer.channel();
    const orEvent_t event = opened(channel.receive<orIpcEventHandle_t>());
    EXPECT_EQ(orEventSynchronize(event), orErrorTimeout);
    EXPECT_TRUE(detailHas("process " + std::to_string(peer.process())));
    Stream stream;
    EXPECT_EQ(orStreamWaitEvent(stream, event, 0), orSuccess);
    EXPECT_EQ(orStreamSynchronize(stream), orErrorTimeout);
    if (!scheduleIs("adversarial")) { // which may not have begun
      EXPECT_TRUE(detailHas(
          "waits for an event of process " + std::to_string(peer.process())));
    }
    peer.kill();
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcEventTest, AWaitForTheOtherProcessIsNoObstacleToExitAndReset) {
  auto body = [] {
    const Peer peer(recordBehindGate);
    const orEvent_t event =
        opened(peer.channel().receive<orIpcEventHandle_t>());
    for (int device : {0, 1}) {
      EXPECT_EQ(orStreamWaitEvent(defaultStream(device), event, 0), orSuccess);
    }
    EXPECT_EQ(orSetDevice(1), orSuccess);
    EXPECT_EQ(orDeviceReset(), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcEventTest, OpeningAndDestroyingLeavesNothingBehind) {
  auto body = [] {
    const Peer peer(recordBehindGate);
    Channel channel = peer.channel();
    const auto handle = channel.receive<orIpcEventHandle_t>();
    EXPECT_EQ(orEventDestroy(opened(handle)), orSuccess);
    const size_t files = openFiles(), ranges = mappings();
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(orEventDestroy(opened(handle)), orSuccess);
    }
    EXPECT_EQ(openFiles(), files);
    EXPECT_EQ(mappings(), ranges);
    peer.kill();
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcEventTest, AnInterprocessEventWorksInItsOwnProcess) {
  Event event(orEventInterprocess);
  EXPECT_EQ(orEventQuery(event), orSuccess);
  Stream first, second;
  {
    Gate gate(first);
    ASSERT_EQ(orEventRecord(event, first), orSuccess);
    ASSERT_EQ(orStreamWaitEvent(second, event, 0), orSuccess);
    EXPECT_EQ(orEventQuery(event), orErrorNotReady);
    EXPECT_EQ(orStreamQuery(second), orErrorNotReady);
  }
  EXPECT_EQ(orEventSynchronize(event), orSuccess);
  EXPECT_EQ(orStreamSynchronize(second), orSuccess);
  float milliseconds = 0;
  EXPECT_EQ(
      orEventElapsedTime(&milliseconds, event, event), orErrorInvalidHandle);
}

// While the queue is full a record has begun but is not queued yet.
TEST(IpcEventTest, AStreamNeverWaitsForItsOwnRecord) {
  auto body = [] {
    alarm(60);
    constexpr int kQueue = 1024;
    Stream stream;
    Event event(orEventInterprocess);
    for (int i = 0; i < 50; ++i) {
      Gate gate(stream);
      for (int k = 1; k < kQueue; ++k) {
        EXPECT_EQ(orLaunchKernel(stream, [] {}), orSuccess);
      }
      std::atomic<int> calling = 0;
      std::thread recorder([&] {
        ++calling;
        EXPECT_EQ(orEventRecord(event, stream), orSuccess);
      });
      std::thread waiter([&] {
        ++calling;
        EXPECT_EQ(orStreamWaitEvent(stream, event, 0), orSuccess);
      });
      while (calling < 2) {
        std::this_thread::yield();
      }
      gate.open();
      recorder.join();
      waiter.join();
      EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
    }
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcEventTest, WhatCannotBeSharedIsRefused) {
  orEvent_t made = nullptr;
  EXPECT_EQ(
      orEventCreateWithFlags(&made, orEventInterprocess | orEventEnableTiming),
      orErrorInvalidValue);
  EXPECT_TRUE(detailHas("is 5"));

  Event plain;
  orIpcEventHandle_t handle{};
  EXPECT_EQ(orIpcGetEventHandle(&handle, plain), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("orEventInterprocess"));
  EXPECT_EQ(orIpcGetEventHandle(&handle, nullptr), orErrorInvalidHandle);
  Event event(orEventInterprocess);
  EXPECT_EQ(orIpcGetEventHandle(nullptr, event), orErrorInvalidValue);
  ASSERT_EQ(orIpcGetEventHandle(&handle, event), orSuccess);
  EXPECT_EQ(orIpcOpenEventHandle(nullptr, handle), orErrorInvalidValue);
  EXPECT_EQ(orIpcOpenEventHandle(&made, handle), orErrorDeviceUninitialized);
  EXPECT_EQ(orIpcOpenEventHandle(&made, {}), orErrorInvalidHandle);
  EXPECT_EQ(made, nullptr);
}

TEST(IpcEventTest, OnlyItsCreatorSharesAnEvent) {
  auto body = [] {
    const Peer peer(recordBehindGate);
    const orEvent_t event =
        opened(peer.channel().receive<orIpcEventHandle_t>());
    orIpcEventHandle_t handle;
    EXPECT_EQ(orIpcGetEventHandle(&handle, event), orErrorInvalidHandle);
    EXPECT_TRUE(detailHas("only the process that created it"));
    peer.kill();
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

} // namespace
} // namespace openreg::testing
