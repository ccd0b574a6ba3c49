#include "remote/Channel.h"
#include "remote/ControlSocket.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

namespace {

using namespace c10::openreg::remote;

size_t write(Channel& channel, const std::string& text) {
  std::memcpy(channel.room().data(), text.data(), text.size());
  return text.size();
}

std::string read(const Channel& channel) {
  return {channel.message().begin(), channel.message().end()};
}

// The other end, as another process would have it: another mapping of the memory.
class Echo {
 public:
  explicit Echo(const Channel& channel)
      : thread_([&channel] {
          Channel mine(channel.memory());
          while (mine.await(Side::Device, nullptr)) {
            mine.pass(Side::Driver, write(mine, read(mine) + "!"));
          }
        }) {}
  ~Echo() {
    thread_.join();
  }

 private:
  std::thread thread_;
};

TEST(ChannelTest, MessagesAlternate) {
  Channel channel;
  {
    const Echo echo(channel);
    for (int i = 0; i < 10'000; ++i) {
      channel.pass(Side::Device, write(channel, std::to_string(i)));
      ASSERT_TRUE(channel.await(Side::Driver, nullptr));
      ASSERT_EQ(read(channel), std::to_string(i) + "!");
    }
    channel.close();
  }
}

TEST(ChannelTest, ALongMessageCrossesAndItsPagesGoBack) {
  const auto pages = [](const Channel& channel) {
    struct stat file {};
    fstat(channel.memory().get(), &file);
    return file.st_blocks;
  };
  Channel channel;
  {
    const Echo echo(channel);
    const std::string text(size_t{32} << 20, 'x');
    channel.pass(Side::Device, write(channel, text));
    ASSERT_TRUE(channel.await(Side::Driver, nullptr));
    EXPECT_TRUE(read(channel) == text + "!");
    const auto before = pages(channel);
    channel.pass(Side::Device, write(channel, "short"));
    ASSERT_TRUE(channel.await(Side::Driver, nullptr));
    EXPECT_LT(pages(channel), before / 4);
    channel.close();
  }
}

TEST(ChannelTest, AWaitEndsWhenTheOtherSideIsLost) {
  Channel channel;
  int asked = 0;
  channel.pass(Side::Device, 0);
  EXPECT_FALSE(channel.await(Side::Driver, [&] { return ++asked == 3; }));
  EXPECT_EQ(asked, 3);
}

TEST(ChannelTest, AWaitEndsWhenTheChannelIsClosed) {
  Channel channel;
  channel.close();
  EXPECT_FALSE(channel.await(Side::Device, nullptr));
  channel.pass(Side::Device, 0); // nobody is there any more
  EXPECT_FALSE(channel.await(Side::Device, nullptr));
}

TEST(ChannelTest, TheLengthOfAMessageIsBounded) {
  Channel channel;
  channel.pass(Side::Device, SIZE_MAX);
  EXPECT_EQ(channel.message().size(), channel.room().size());
}

TEST(ControlSocketTest, DescriptorsTravelWithAMessage) {
  auto [mine, theirs] = ControlSocket::makePair();
  const Channel channel;
  ControlMessage message;
  message.kind = ControlKind::NewChannel;
  message.device = 3;
  ASSERT_TRUE(mine.send(message, {channel.memory().get()}));

  const auto received = theirs.receive(/*milliseconds=*/10'000);
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->message.kind, ControlKind::NewChannel);
  EXPECT_EQ(received->message.device, 3);
  ASSERT_EQ(received->descriptors.size(), 1u);
  Channel theirChannel(received->descriptors[0]);
  theirChannel.pass(Side::Device, write(theirChannel, "the same memory"));
  EXPECT_EQ(read(channel), "the same memory");
  EXPECT_TRUE(theirs.peerIsSameUser());
}

TEST(ControlSocketTest, NothingIsReceivedFromAnEndThatIsGone) {
  auto [mine, theirs] = ControlSocket::makePair();
  EXPECT_FALSE(mine.receive(/*milliseconds=*/0).has_value());
  theirs = {};
  EXPECT_FALSE(mine.receive(/*milliseconds=*/-1).has_value());
  EXPECT_FALSE(mine.send({}));
}

TEST(ControlSocketTest, WhatIsNoMessageIsRefused) {
  auto [mine, theirs] = ControlSocket::makePair();
  ASSERT_EQ(::write(mine.descriptor(), "hello", 5), 5);
  EXPECT_FALSE(theirs.receive(/*milliseconds=*/-1).has_value());
}

} // namespace
