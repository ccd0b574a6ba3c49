// Device memory shared by two processes.
#include "ipc_memory.h"

namespace openreg::testing {
namespace {

// What the system lets the host do at an address, such as "rw-s".
std::string accessAt(const void* pointer) {
  const auto address = reinterpret_cast<size_t>(pointer);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    size_t first = 0, last = 0;
    char access[5] = "";
    if (std::sscanf(line.c_str(), "%zx-%zx %4s", &first, &last, access) == 3 &&
        address >= first && address < last) {
      return access;
    }
  }
  return "";
}

TEST(IpcMemoryTest, BothProcessesHaveTheSameBytes) {
  auto body = [] {
    const Peer peer([](Channel& channel) {
      int* const memory = opened(channel.receive<orIpcMemHandle_t>());
      EXPECT_EQ(read(memory + kCount - 1), 7);
      int* const kernel = static_cast<int*>(orKernelPointer(memory));
      Stream stream;
      CHILD_REQUIRE(
          orLaunchKernel(stream, [kernel] { *kernel = 8; }) == orSuccess);
      CHILD_REQUIRE(orStreamSynchronize(stream) == orSuccess);
      channel.signal();
      channel.await();
      EXPECT_EQ(read(memory), 9);
    });
    int* const memory = allocate();
    write(memory + kCount - 1, 7);
    Channel channel = peer.channel();
    channel.send(handleOf(memory));
    channel.await();
    EXPECT_EQ(read(memory), 8);
    write(memory, 9);
    channel.signal();
    EXPECT_TRUE(peer.join());
    EXPECT_EQ(orFree(memory), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcMemoryTest, OpenMemoryIsClosedToTheHostAndKnownToTheDevice) {
  auto body = [] {
    const Peer peer(share);
    Channel channel = peer.channel();
    int* const memory = opened(channel.receive<orIpcMemHandle_t>());
    EXPECT_EQ(accessAt(memory), "---s");
    EXPECT_EQ(accessAt(orKernelPointer(memory)), "rw-s");
    EXPECT_EQ(orMemoryUnprotect(memory), orSuccess);
    memory[3] = 5;
    EXPECT_EQ(orMemoryProtect(memory), orSuccess);
    EXPECT_EQ(accessAt(memory), "---s");
    EXPECT_EQ(read(memory + 3), 5);

    orPointerAttributes attributes{};
    EXPECT_EQ(orPointerGetAttributes(&attributes, memory + 1), orSuccess);
    EXPECT_EQ(attributes.type, orMemoryTypeDevice);
    EXPECT_EQ(attributes.device, 0);
    void* base = nullptr;
    size_t bytes = 0;
    EXPECT_EQ(orMemGetAddressRange(&base, &bytes, memory + 9), orSuccess);
    EXPECT_EQ(base, memory);
    EXPECT_GE(bytes, kCount * sizeof(int));
    EXPECT_EQ(orMemset(memory, 0, bytes + 1), orErrorInvalidValue);
    channel.signal();
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcMemoryTest, OpenMemoryCountsInTheFiguresOfItsOwnerOnly) {
  auto body = [] {
    const Peer peer(share);
    size_t before = 0, after = 0;
    EXPECT_EQ(orMemGetInfo(&before, nullptr), orSuccess);
    Channel channel = peer.channel();
    int* const memory = opened(channel.receive<orIpcMemHandle_t>());
    EXPECT_EQ(orMemGetInfo(&after, nullptr), orSuccess);
    EXPECT_EQ(after, before);
    EXPECT_EQ(orIpcCloseMemHandle(memory), orSuccess);
    EXPECT_EQ(orMemGetInfo(&after, nullptr), orSuccess);
    EXPECT_EQ(after, before);
    channel.signal();
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcMemoryTest, MemoryIsClosedAsOftenAsItWasOpened) {
  auto body = [] {
    const Peer peer(share);
    Channel channel = peer.channel();
    const auto handle = channel.receive<orIpcMemHandle_t>();
    int* const memory = opened(handle);
    EXPECT_EQ(opened(handle), memory);
    EXPECT_EQ(orIpcCloseMemHandle(memory + 1), orErrorInvalidValue);
    EXPECT_EQ(orIpcCloseMemHandle(memory), orSuccess);
    EXPECT_EQ(read(memory), 0);
    EXPECT_EQ(orIpcCloseMemHandle(memory), orSuccess);
    EXPECT_EQ(orIpcCloseMemHandle(memory), orErrorInvalidValue);
    EXPECT_TRUE(detailHas("closed before"));
    EXPECT_EQ(orMemset(memory, 0, 1), orErrorInvalidValue);
    EXPECT_EQ(orIpcCloseMemHandle(nullptr), orErrorInvalidValue);
    channel.signal();
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcMemoryTest, AddressesOfClosedMemoryServeOwnAllocationsAgain) {
  auto body = [] {
    const Peer peer([](Channel& channel) {
      int* const memory = allocate();
      write(memory, 7);
      channel.send(handleOf(memory));
      channel.await();
      EXPECT_EQ(read(memory), 7);
    });
    Channel channel = peer.channel();
    int* const theirs = opened(channel.receive<orIpcMemHandle_t>());
    EXPECT_EQ(orIpcCloseMemHandle(theirs), orSuccess);
    int* const own = allocate();
    EXPECT_EQ(own, theirs);
    EXPECT_EQ(read(own), 0);
    write(own, 8);
    channel.signal();
    EXPECT_TRUE(peer.join());
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcMemoryTest, OnlyTheOwnerFreesAndShares) {
  auto body = [] {
    const Peer peer(share);
    Channel channel = peer.channel();
    int* const memory = opened(channel.receive<orIpcMemHandle_t>());
    EXPECT_EQ(orFree(memory), orErrorInvalidValue);
    EXPECT_TRUE(detailHas("orIpcCloseMemHandle"));
    orIpcMemHandle_t handle;
    EXPECT_EQ(orIpcGetMemHandle(&handle, memory), orErrorInvalidValue);
    EXPECT_TRUE(detailHas("only the process that allocated it"));
    channel.signal();
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcMemoryTest, WhatIsOpenOutlivesItsOwner) {
  auto body = [] {
    const Peer peer([](Channel& channel) {
      int* const memory = allocate();
      write(memory, 7);
      channel.send(handleOf(memory));
      channel.await();
    });
    Channel channel = peer.channel();
    const auto handle = channel.receive<orIpcMemHandle_t>();
    int* const memory = opened(handle);
    peer.kill();
    EXPECT_EQ(read(memory), 7);
    write(memory, 8);
    EXPECT_EQ(read(memory), 8);
    EXPECT_EQ(openingFails(handle), orErrorMapBufferObjectFailed);
    EXPECT_TRUE(detailHas("process " + std::to_string(peer.process())));
    EXPECT_FALSE(peer.join());
    EXPECT_EQ(openingFails(handle), orErrorMapBufferObjectFailed);
    EXPECT_EQ(orIpcCloseMemHandle(memory), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcMemoryTest, AnOwnerGoesOnWhenTheOtherProcessIsKilled) {
  auto body = [] {
    const Peer peer([](Channel& channel) {
      write(opened(channel.receive<orIpcMemHandle_t>()), 8);
      channel.signal();
      channel.await();
    });
    int* const memory = allocate();
    Channel channel = peer.channel();
    channel.send(handleOf(memory));
    channel.await();
    peer.kill();
    EXPECT_EQ(read(memory), 8);
    EXPECT_EQ(orFree(memory), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcMemoryTest, AResetOnEitherSideKeepsWhatIsShared) {
  auto body = [] {
    const Peer peer([](Channel& channel) {
      int* const memory = allocate();
      write(memory, 7);
      channel.send(handleOf(memory));
      CHILD_REQUIRE(orDeviceReset() == orSuccess);
      channel.signal();
      channel.await();
      EXPECT_EQ(read(memory), 8);
    });
    Channel channel = peer.channel();
    int* const memory = opened(channel.receive<orIpcMemHandle_t>());
    channel.await();
    EXPECT_EQ(orDeviceReset(), orSuccess);
    EXPECT_EQ(read(memory), 7);
    write(memory, 8);
    channel.signal();
    EXPECT_TRUE(peer.join());
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcMemoryTest, OpeningAndClosingLeavesNothingBehind) {
  auto body = [] {
    const Peer peer(share);
    Channel channel = peer.channel();
    const auto handle = channel.receive<orIpcMemHandle_t>();
    EXPECT_EQ(orIpcCloseMemHandle(opened(handle)), orSuccess);
    const size_t files = openFiles(), ranges = mappings();
    for (int i = 0; i < 100; ++i) {
      int* const memory = opened(handle);
      EXPECT_EQ(openFiles(), files);
      EXPECT_EQ(orIpcCloseMemHandle(memory), orSuccess);
    }
    EXPECT_EQ(openFiles(), files);
    EXPECT_EQ(mappings(), ranges);
    channel.signal();
    EXPECT_TRUE(peer.join());
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

} // namespace
} // namespace openreg::testing
