// Device memory shared by two processes.
#include "two_processes.h"

#include <cstring>

namespace openreg::testing {
namespace {

constexpr unsigned kFlags = orIpcMemLazyEnablePeerAccess;
constexpr size_t kCount = 1000;

orIpcMemHandle_t handleOf(void* pointer) {
  orIpcMemHandle_t handle{};
  CHILD_REQUIRE(orIpcGetMemHandle(&handle, pointer) == orSuccess);
  return handle;
}

int* opened(const orIpcMemHandle_t& handle) {
  void* pointer = nullptr;
  CHILD_REQUIRE(orIpcOpenMemHandle(&pointer, handle, kFlags) == orSuccess);
  return static_cast<int*>(pointer);
}

orError_t openingFails(const orIpcMemHandle_t& handle) {
  void* pointer = &pointer;
  const orError_t error = orIpcOpenMemHandle(&pointer, handle, kFlags);
  CHILD_REQUIRE(!pointer && error != orSuccess);
  return error;
}

int read(const int* device) {
  int value = -1;
  CHILD_REQUIRE(
      orMemcpy(&value, device, sizeof(int), orMemcpyDeviceToHost) == orSuccess);
  return value;
}

void write(int* device, int value) {
  CHILD_REQUIRE(
      orMemcpy(device, &value, sizeof(int), orMemcpyHostToDevice) == orSuccess);
}

int* allocate() {
  void* memory = nullptr;
  CHILD_REQUIRE(orMalloc(&memory, kCount * sizeof(int)) == orSuccess);
  return static_cast<int*>(memory);
}

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

// A process that shares an allocation and waits to be told to end.
void share(Channel& channel) {
  channel.send(handleOf(allocate()));
  channel.await();
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

TEST(IpcMemoryTest, BytesThatAreNoHandleAreRefused) {
  auto body = [] {
    const Peer peer(share);
    Channel channel = peer.channel();
    const auto handle = channel.receive<orIpcMemHandle_t>();
    for (size_t i = 0; i < sizeof(handle); ++i) {
      orIpcMemHandle_t wrong = handle;
      wrong.reserved[i] ^= 1;
      EXPECT_EQ(openingFails(wrong), orErrorInvalidHandle) << i;
    }
    EXPECT_TRUE(detailHas("no handle of memory"));
    EXPECT_EQ(openingFails({}), orErrorInvalidHandle);

    void* pointer = nullptr;
    EXPECT_EQ(orIpcOpenMemHandle(&pointer, handle, 0), orErrorInvalidValue);
    EXPECT_TRUE(detailHas("is 0"));
    EXPECT_EQ(orIpcOpenMemHandle(nullptr, handle, kFlags), orErrorInvalidValue);
    orEvent_t event = nullptr;
    orIpcEventHandle_t other;
    std::memcpy(&other, &handle, sizeof(other));
    EXPECT_EQ(orIpcOpenEventHandle(&event, other), orErrorInvalidHandle);
    channel.signal();
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcMemoryTest, FreedMemoryCannotBeOpened) {
  auto body = [] {
    const Peer peer([](Channel& channel) {
      int* const memory = allocate();
      const auto first = handleOf(memory);
      channel.send(first);
      channel.await();
      CHILD_REQUIRE(orFree(memory) == orSuccess);
      int* const again = allocate();
      EXPECT_EQ(again, memory);
      const auto second = handleOf(again);
      EXPECT_NE(std::memcmp(&first, &second, sizeof(first)), 0);
      channel.signal();
      channel.await();
    });
    Channel channel = peer.channel();
    const auto handle = channel.receive<orIpcMemHandle_t>();
    channel.signal();
    channel.await();
    EXPECT_EQ(openingFails(handle), orErrorInvalidHandle);
    EXPECT_TRUE(detailHas("freed"));
    channel.signal();
    EXPECT_TRUE(peer.join());
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcMemoryTest, AHandleIsForOtherProcesses) {
  DeviceArray<int> array(kCount);
  orIpcMemHandle_t first{}, second{};
  ASSERT_EQ(orIpcGetMemHandle(&first, array.data()), orSuccess);
  ASSERT_EQ(orIpcGetMemHandle(&second, array.data()), orSuccess);
  EXPECT_EQ(std::memcmp(&first, &second, sizeof(first)), 0);
  EXPECT_EQ(openingFails(first), orErrorDeviceUninitialized);
  EXPECT_TRUE(detailHas("own"));

  EXPECT_EQ(orIpcGetMemHandle(&first, array.data() + 1), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("not the start"));
  EXPECT_EQ(orIpcGetMemHandle(&first, &first), orErrorInvalidValue);
  EXPECT_EQ(orIpcGetMemHandle(&first, nullptr), orErrorInvalidValue);
  EXPECT_EQ(orIpcGetMemHandle(nullptr, array.data()), orErrorInvalidValue);
  EXPECT_EQ(orIpcCloseMemHandle(array.data()), orErrorInvalidValue);
  EXPECT_EQ(array.read()[0], array.read()[1]);
}

TEST(IpcMemoryTest, MemoryIsOnItsDeviceWhateverNumberThatHasHere) {
  auto body = [] {
    setenv("OPENREG_DEVICE_COUNT", "3", 1);
    const Peer peer([](Channel& channel) {
      for (const int device : {2, 0}) {
        CHILD_REQUIRE(orSetDevice(device) == orSuccess);
        channel.send(handleOf(allocate()));
      }
      channel.await();
    });
    setenv("OPENREG_VISIBLE_DEVICES", "1,2", 1);
    Channel channel = peer.channel();
    int* const memory = opened(channel.receive<orIpcMemHandle_t>());
    orPointerAttributes attributes{};
    EXPECT_EQ(orPointerGetAttributes(&attributes, memory), orSuccess);
    EXPECT_EQ(attributes.device, 1);
    EXPECT_EQ(
        openingFails(channel.receive<orIpcMemHandle_t>()),
        orErrorInvalidDevice);
    EXPECT_TRUE(detailHas("device 0"));
    channel.signal();
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcMemoryTest, AResetClosesWhatIsOpenAndEndsWhatIsShared) {
  auto body = [] {
    const Peer peer([](Channel& channel) {
      int* const memory = allocate();
      write(memory, 7);
      channel.send(handleOf(memory));
      channel.await();
      EXPECT_EQ(read(memory), 7);
      CHILD_REQUIRE(orDeviceReset() == orSuccess);
      channel.signal();
      channel.await();
    });
    Channel channel = peer.channel();
    const auto handle = channel.receive<orIpcMemHandle_t>();
    int* const memory = opened(handle);
    EXPECT_EQ(orDeviceReset(), orSuccess);
    EXPECT_EQ(orIpcCloseMemHandle(memory), orErrorInvalidValue);
    write(allocate(), 8);
    EXPECT_EQ(read(opened(handle)), 7);
    channel.signal();
    channel.await();
    EXPECT_EQ(openingFails(handle), orErrorInvalidHandle);
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

TEST(IpcMemoryTest, NothingSharedCanBeReadByOtherUsers) {
  auto body = [] {
    handleOf(allocate());
    int shared = 0;
    for (const auto& file :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(file.path(), gone);
      if (target.string().find("memfd:openreg") != std::string::npos) {
        EXPECT_EQ(
            std::filesystem::status(file.path()).permissions(),
            std::filesystem::perms::owner_read |
                std::filesystem::perms::owner_write)
            << target;
        ++shared;
      }
    }
    EXPECT_EQ(shared, 2) << "the memory, and what others need to find it";
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

} // namespace
} // namespace openreg::testing
