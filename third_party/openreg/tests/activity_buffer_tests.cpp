// How activity records reach the one who asked for them.
#include "support.h"

#include <atomic>
#include <thread>

#include <unistd.h>

namespace openreg::testing {
namespace {

constexpr const char* kNames[] =
    {"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"};

// Records that were delivered, batch by batch.
struct Delivered {
  std::vector<std::vector<orActivityRecord>> batches;

  static void callback(const orActivityRecord* r, size_t n, void* self) {
    static_cast<Delivered*>(self)->batches.emplace_back(r, r + n);
  }
  std::string names() const {
    std::string names;
    for (const auto& batch : batches) {
      for (const orActivityRecord& record : batch) {
        names += record.name;
      }
    }
    return names;
  }
};

class ActivityBufferTest : public ::testing::Test {
 protected:
  void TearDown() override {
    orActivityDisableTracing();
    Delivered rest;
    EXPECT_EQ(orActivityFlush(rest.callback, &rest, nullptr), orSuccess);
  }
  void enable(
      size_t capacity,
      orActivityCallback callback = nullptr,
      void* userData = nullptr) {
    ASSERT_EQ(
        orActivityEnableTracing(orActivityKernel, capacity, callback, userData),
        orSuccess);
  }
  void launch(size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      const orLaunchConfig config{kNames[i], orLaunchDefault};
      ASSERT_EQ(orLaunchKernelEx(&config, stream_, [] {}), orSuccess);
    }
    ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  }
  static std::string flush(size_t* dropped = nullptr) {
    Delivered delivered;
    EXPECT_EQ(
        orActivityFlush(delivered.callback, &delivered, dropped), orSuccess);
    EXPECT_LE(delivered.batches.size(), 1u);
    return delivered.names();
  }

  Stream stream_;
};

TEST_F(ActivityBufferTest, FlushDeliversOldestFirstAndEmptiesTheBuffer) {
  enable(100);
  launch(0, 5);
  size_t dropped = 99;
  EXPECT_EQ(flush(&dropped), "k0k1k2k3k4");
  EXPECT_EQ(dropped, 0u);
  launch(5, 7);
  EXPECT_EQ(flush(), "k5k6");
}

TEST_F(ActivityBufferTest, FlushDoesNotCallWithoutRecords) {
  auto refuse = [](const orActivityRecord*, size_t, void*) {
    ADD_FAILURE() << "called without records";
  };
  EXPECT_EQ(orActivityFlush(refuse, nullptr, nullptr), orSuccess);
  enable(100);
  EXPECT_EQ(orActivityFlush(refuse, nullptr, nullptr), orSuccess);
}

TEST_F(ActivityBufferTest, WithoutACallbackAFullBufferDropsAndCounts) {
  enable(4);
  launch(0, 10);
  size_t dropped = 99;
  EXPECT_EQ(flush(&dropped), "k0k1k2k3");
  EXPECT_EQ(dropped, 6u);
  EXPECT_EQ(flush(&dropped), "");
  EXPECT_EQ(dropped, 0u);
  launch(0, 1);
  EXPECT_EQ(flush(&dropped), "k0");
  EXPECT_EQ(dropped, 0u);
}

TEST_F(ActivityBufferTest, WithACallbackAFullBufferIsDelivered) {
  Delivered delivered;
  enable(4, delivered.callback, &delivered);
  launch(0, 10);
  ASSERT_EQ(delivered.batches.size(), 2u);
  EXPECT_EQ(delivered.batches[0].size(), 4u);
  EXPECT_EQ(delivered.batches[1].size(), 4u);
  EXPECT_EQ(delivered.names(), "k0k1k2k3k4k5k6k7");
  size_t dropped = 99;
  EXPECT_EQ(flush(&dropped), "k8k9");
  EXPECT_EQ(dropped, 0u);
}

TEST_F(ActivityBufferTest, ManyThreadsDeliverOneAtATimeAndCountWhatIsLost) {
  struct Counter {
    std::atomic<int> inside = 0;
    std::atomic<bool> overlapped = false;
    size_t records = 0; // guarded by "one call at a time" alone
  } counter;
  auto count = [](const orActivityRecord*, size_t n, void* raw) {
    auto* self = static_cast<Counter*>(raw);
    if (self->inside.fetch_add(1) != 0) {
      self->overlapped = true;
    }
    self->records += n;
    self->inside.fetch_sub(1);
  };
  enable(3, count, &counter);
  constexpr int kThreads = 3, kLaunches = 300;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      Stream stream;
      for (int j = 0; j < kLaunches; ++j) {
        ASSERT_EQ(orLaunchKernel(stream, [] {}), orSuccess);
      }
      ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  size_t dropped = 99;
  ASSERT_EQ(orActivityFlush(count, &counter, &dropped), orSuccess);
  EXPECT_EQ(counter.records + dropped, size_t{kThreads} * kLaunches);
  EXPECT_FALSE(counter.overlapped);
}

TEST_F(ActivityBufferTest, DisablingKeepsWhatWasCollected) {
  enable(100);
  launch(0, 2);
  ASSERT_EQ(orActivityDisableTracing(), orSuccess);
  launch(2, 4);
  EXPECT_EQ(flush(), "k0k1");
}

TEST_F(ActivityBufferTest, WorkStillQueuedAtTheEndLeavesNoRecord) {
  enable(100);
  {
    Gate gate(stream_);
    const orLaunchConfig config{"late", orLaunchDefault};
    ASSERT_EQ(orLaunchKernelEx(&config, stream_, [] {}), orSuccess);
    ASSERT_EQ(orActivityDisableTracing(), orSuccess);
  }
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(flush(), "");
}

TEST_F(ActivityBufferTest, AFullBufferLeftByAnEarlierTraceIsDeliveredToo) {
  enable(4);
  launch(0, 4);
  ASSERT_EQ(orActivityDisableTracing(), orSuccess);
  Delivered delivered;
  enable(2, delivered.callback, &delivered);
  launch(4, 10);
  size_t dropped = 99;
  const std::string rest = flush(&dropped);
  EXPECT_EQ(delivered.names() + rest, "k0k1k2k3k4k5k6k7k8k9");
  EXPECT_EQ(dropped, 0u);
}

TEST_F(ActivityBufferTest, WhatACallbackLaunchesIsNotRecorded) {
  struct Context {
    orStream_t stream;
    int calls = 0;
  };
  Stream other;
  Context context{other};
  auto launchMore = [](const orActivityRecord*, size_t, void* raw) {
    auto* self = static_cast<Context*>(raw);
    ++self->calls;
    EXPECT_EQ(orLaunchKernel(self->stream, [] {}), orSuccess);
    int device = -1;
    EXPECT_EQ(orGetDevice(&device), orSuccess);
  };
  enable(1, launchMore, &context);
  launch(0, 3);
  ASSERT_EQ(orStreamSynchronize(other), orSuccess);
  EXPECT_EQ(context.calls, 3);
  EXPECT_EQ(flush(), "");
}

TEST_F(ActivityBufferTest, FlushIsNotPermittedFromACallback) {
  orError_t error = orSuccess;
  auto flushAgain = [](const orActivityRecord*, size_t, void* raw) {
    *static_cast<orError_t*>(raw) =
        orActivityFlush(Delivered::callback, nullptr, nullptr);
  };
  enable(100);
  launch(0, 1);
  ASSERT_EQ(orActivityFlush(flushAgain, &error, nullptr), orSuccess);
  EXPECT_EQ(error, orErrorNotPermitted);
  EXPECT_EQ(flush(), "");
}

// A callback on a stream's own thread cannot be given the wait it asks for, but
// it must be told so.
TEST(ActivityCallbackTest, MaySynchronizeWithoutADeadlock) {
  auto body = [] {
    alarm(60);
    static std::atomic<int> calls = 0;
    Stream stream;
    auto wait = [](const orActivityRecord*, size_t, void* raw) {
      ++calls;
      orStreamSynchronize(static_cast<orStream_t>(raw));
      orDeviceSynchronize();
    };
    EXPECT_EQ(
        orActivityEnableTracing(
            orActivityKernel, 1, wait, static_cast<orStream_t>(stream)),
        orSuccess);
    EXPECT_EQ(orLaunchKernel(stream, [] {}), orSuccess);
    EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
    EXPECT_EQ(orActivityDisableTracing(), orSuccess);
    EXPECT_EQ(calls, 1);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

} // namespace
} // namespace openreg::testing
