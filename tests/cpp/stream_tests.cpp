// Streams as PyTorch sees them.
#include "support.h"

#include <set>

namespace c10::openreg::testing {
namespace {

using StreamTest = DeviceTest;

constexpr int kStreamsPerPool = 32;

TEST_F(StreamTest, APoolHandsOutThirtyTwoStreamsInTurn) {
  std::vector<StreamId> ids;
  for (int i = 0; i < 2 * kStreamsPerPool; ++i) {
    ids.push_back(getStreamFromPool(-1, 1).id());
  }
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), size_t{kStreamsPerPool});
  for (int i = 0; i < kStreamsPerPool; ++i) {
    EXPECT_EQ(ids[i], ids[i + kStreamsPerPool]);
  }
}

TEST_F(StreamTest, EachDeviceAndPriorityHasAPoolOfItsOwn) {
  const auto [least, greatest] = OpenRegStream::priority_range();
  std::set<StreamId> ids;
  size_t taken = 0;
  for (const DeviceIndex index : {0, 1}) {
    for (int priority = greatest; priority <= least; ++priority) {
      for (int i = 0; i < kStreamsPerPool; ++i, ++taken) {
        const OpenRegStream stream = getStreamFromPool(priority, index);
        EXPECT_EQ(stream.priority(), priority);
        EXPECT_EQ(stream.device(), device(index));
        ids.insert(stream.id());
      }
    }
  }
  EXPECT_EQ(ids.size(), taken);
}

TEST_F(StreamTest, PrioritiesOutOfRangeAreClamped) {
  const auto [least, greatest] = OpenRegStream::priority_range();
  EXPECT_LT(greatest, least);
  EXPECT_EQ(getStreamFromPool(100).priority(), least);
  EXPECT_EQ(getStreamFromPool(-100).priority(), greatest);
}

TEST_F(StreamTest, WithoutADeviceAStreamIsOneOfTheCurrentDevice) {
  set_device(1);
  EXPECT_EQ(getStreamFromPool().device(), device(1));
  EXPECT_EQ(getDefaultOpenRegStream().device(), device(1));
  EXPECT_EQ(getCurrentOpenRegStream().device(), device(1));
}

TEST_F(StreamTest, StreamsOfDevicesThatDoNotExistAreRefused) {
  for (const DeviceIndex index : {2, 63, 64, 127}) {
    EXPECT_THROW(getStreamFromPool(0, index), Error);
    EXPECT_THROW(getDefaultOpenRegStream(index), Error);
    EXPECT_THROW(getCurrentOpenRegStream(index), Error);
    EXPECT_THROW(
        setCurrentOpenRegStream(
            OpenRegStream(Stream(Stream::DEFAULT, device(index)))),
        Error);
  }
}

TEST_F(StreamTest, PoolStreamsDoNotWaitForTheDefaultStream) {
  const OpenRegStream stream = getStreamFromPool();
  Gate gate(getDefaultOpenRegStream().stream());
  ASSERT_EQ(orLaunchKernel(stream, [] {}), orSuccess);
  stream.synchronize(); // would not return
  EXPECT_TRUE(stream.query());
}

TEST_F(StreamTest, TheDefaultStreamHasTheIdZero) {
  orStream_t handle = nullptr;
  ASSERT_EQ(orDeviceGetDefaultStream(&handle, 1), orSuccess);
  const OpenRegStream stream = getDefaultOpenRegStream(1);
  EXPECT_EQ(stream.id(), 0);
  EXPECT_EQ(stream.stream(), handle);
}

TEST_F(StreamTest, AnExternalStreamIsUsedAsItIs) {
  const ::openreg::testing::Stream made;
  const OpenRegStream stream = getStreamFromExternal(made, 0);
  EXPECT_EQ(stream.stream(), static_cast<orStream_t>(made));
  Gate gate(made);
  EXPECT_FALSE(stream.query());
  EXPECT_TRUE(waitsForGate(gate, [&] { stream.synchronize(); }));
}

TEST_F(StreamTest, TheDefaultStreamIsItselfAlsoAsAnExternalOne) {
  const OpenRegStream stream = getDefaultOpenRegStream(1);
  EXPECT_EQ(getStreamFromExternal(stream.stream(), 1), stream);
}

TEST_F(StreamTest, AnExternalStreamOfAnotherDeviceIsRefused) {
  const ::openreg::testing::Stream made;
  const std::string message =
      messageOf([&] { getStreamFromExternal(made, 1); });
  EXPECT_TRUE(has(message, "openreg:0"));
  EXPECT_TRUE(has(message, "openreg:1"));
}

TEST_F(StreamTest, AHandleThatNamesNothingIsRefused) {
  for (const orStream_t wrong :
       {static_cast<orStream_t>(nullptr), madeUp<orStream_t>()}) {
    EXPECT_EQ(
        codeOf([&] { getStreamFromExternal(wrong, 0); }), orErrorInvalidHandle);
  }
}

TEST_F(StreamTest, AStreamThatWasDestroyedIsRefusedNotACrash) {
  orStream_t made = nullptr;
  ASSERT_EQ(orStreamCreate(&made), orSuccess);
  const OpenRegStream stream = getStreamFromExternal(made, 0);
  ASSERT_EQ(orStreamDestroy(made), orSuccess);
  EXPECT_EQ(codeOf([&] { stream.query(); }), orErrorInvalidHandle);
  EXPECT_EQ(codeOf([&] { stream.synchronize(); }), orErrorInvalidHandle);
  EXPECT_EQ(codeOf([&] { stream.priority(); }), orErrorInvalidHandle);
  EXPECT_EQ(
      codeOf([&] { getStreamFromExternal(made, 0); }), orErrorInvalidHandle);
}

TEST_F(StreamTest, AStreamOfAnotherKindOfDeviceIsRefused) {
  EXPECT_TRUE(
      has(messageOf([] {
            OpenRegStream(Stream(Stream::DEFAULT, Device(DeviceType::CPU)));
          }),
          "expected a stream of an openreg device, but got one of cpu"));
}

TEST_F(StreamTest, TheCurrentStreamIsPerThreadAndDevice) {
  const OpenRegStream stream = getStreamFromPool(0, 1);
  setCurrentOpenRegStream(stream);
  EXPECT_EQ(getCurrentOpenRegStream(1), stream);
  EXPECT_EQ(getCurrentOpenRegStream(0), getDefaultOpenRegStream(0));
  std::thread([] {
    EXPECT_EQ(getCurrentOpenRegStream(1), getDefaultOpenRegStream(1));
  }).join();
  EXPECT_EQ(current_device(), 0);
}

TEST_F(StreamTest, ExchangeCurrentStreamReturnsTheOneBefore) {
  const OpenRegStream first = getStreamFromPool(0, 1);
  const OpenRegStream second = getStreamFromPool(0, 1);
  setCurrentOpenRegStream(first);
  EXPECT_EQ(OpenRegStream(exchangeCurrentStream(second)), first);
  EXPECT_EQ(getCurrentOpenRegStream(1), second);
}

TEST_F(StreamTest, StreamsAreValuesThatCanBeComparedAndHashed) {
  const OpenRegStream stream = getStreamFromPool(0, 1);
  const OpenRegStream copy(stream.unwrap());
  EXPECT_EQ(copy, stream);
  EXPECT_EQ(
      std::hash<OpenRegStream>()(copy), std::hash<OpenRegStream>()(stream));
  EXPECT_FALSE(getDefaultOpenRegStream(0) == getDefaultOpenRegStream(1));
}

TEST_F(StreamTest, ThreadsThatTakeTheFirstStreamAtOnceGetDifferentOnes) {
  constexpr int kThreads = 8;
  std::vector<StreamId> ids(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { ids[i] = getStreamFromPool(-2, 1).id(); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), size_t{kThreads});
}

} // namespace
} // namespace c10::openreg::testing
