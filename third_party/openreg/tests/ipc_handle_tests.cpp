// Handles of memory: what they name, and for whom.
#include "ipc_memory.h"

#include <cstring>

namespace openreg::testing {
namespace {

TEST(IpcHandleTest, BytesThatAreNoHandleAreRefused) {
  auto body = [] {
    const Peer peer(share);
    Channel channel = peer.channel();
    const auto handle = channel.receive<orIpcMemHandle_t>();
    for (size_t i = 0; i < sizeof(handle); ++i) {
      orIpcMemHandle_t wrong = handle;
      wrong.reserved[i] ^= 1;
      EXPECT_EQ(openingFails(wrong), orErrorInvalidHandle) << i;
    }
    EXPECT_TRUE(detailHas("not a handle of memory"));
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

TEST(IpcHandleTest, FreedMemoryCannotBeOpened) {
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

TEST(IpcHandleTest, AHandleIsForOtherProcesses) {
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

TEST(IpcHandleTest, MemoryIsOnItsDeviceWhateverNumberThatHasHere) {
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

TEST(IpcHandleTest, AHandleIsOfNoUseToAnotherUser) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can become another user";
  }
  auto body = [] {
    const Peer peer([](Channel& channel) {
      constexpr uid_t kNobody = 65534;
      const auto handle = channel.receive<orIpcMemHandle_t>();
      CHILD_REQUIRE(setuid(kNobody) == 0);
      EXPECT_EQ(openingFails(handle), orErrorMapBufferObjectFailed);
      EXPECT_TRUE(detailHas("belongs to another user"));
    });
    peer.channel().send(handleOf(allocate()));
    EXPECT_TRUE(peer.join());
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(IpcHandleTest, NothingSharedCanBeReadByOtherUsers) {
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
