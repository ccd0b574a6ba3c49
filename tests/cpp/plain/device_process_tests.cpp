// Both ends of a device process, with device_double.cpp at the other one.
#include "exception.h"

#include "remote/DeviceProcess.h"
#include "remote/Wire.h"
#include "runtime/OpenRegDeviceScope.h"

#include "../../../third_party/openreg/tests/support.h"

#include <atomic>
#include <cstring>
#include <latch>
#include <set>
#include <thread>

#include <signal.h>

namespace openreg::testing {
namespace {

using namespace c10::openreg::remote;
using c10::openreg::DeviceScope;

/// A block of device memory as the driver lends it: it counts itself.
class Block {
 public:
  Block() = default;
  explicit Block(size_t bytes) {
    EXPECT_EQ(orMalloc(&pointer_, bytes), orSuccess);
    ++alive;
  }
  Block(Block&& other) noexcept
      : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Block& operator=(Block&&) = delete;
  ~Block() {
    if (pointer_) {
      EXPECT_EQ(orFree(pointer_), orSuccess);
      --alive;
    }
  }
  /// Its kernel address.
  void* get() const {
    return pointer_ ? orKernelPointer(pointer_) : nullptr;
  }

  static inline std::atomic<int> alive{0};

 private:
  void* pointer_ = nullptr;
};

/// A thread's way to the process.
class Link {
 public:
  explicit Link(int device = 0)
      : process_(DeviceProcess::of(device)), channel_(process_->newChannel()) {}
  ~Link() {
    channel_->close();
  }

  DeviceProcess& process() const {
    return *process_;
  }

  /// Calls an operator, with memory of the device as its only storage. Returns the
  /// answer.
  std::vector<char> call(
      const char* name,
      const void* memory = nullptr,
      size_t bytes = 0,
      int64_t value = 0) {
    Writer writer(channel_->room());
    writer.put(MessageKind::Call);
    writer.putText(name);
    writer.putText("");
    writer.put<int32_t>(1);
    writer.put<uint32_t>(0); // default dtype
    writer.put<uint32_t>(0); // switches
    writer.put<uint64_t>(0); // bytes of the host
    putSlots(writer, {});
    writer.put<uint64_t>(bytes == 0 ? 0 : 1);
    if (bytes != 0) {
      const auto offset = static_cast<uint64_t>(
          static_cast<const char*>(memory) - process_->memoryAt(0));
      putStorage(writer, {StorageKind::Device, offset, bytes, {}});
    }
    writer.put<uint64_t>(0); // tensors
    writer.put<uint64_t>(1); // values
    WireValue number;
    number.kind = ValueKind::Int;
    number.number = value;
    putValue(writer, number);
    return exchange(writer.size());
  }

  /// Gives the turn away and waits for it.
  std::vector<char> exchange(size_t bytes) {
    channel_->pass(Side::Device, bytes);
    if (!channel_->await(Side::Driver, [this] { return process_->lost(); })) {
      process_->throwLost();
    }
    const auto message = channel_->message();
    return {message.begin(), message.end()};
  }

  /// Answers a question for memory.
  std::vector<char> allocate(const std::vector<char>& question) {
    const uint64_t bytes = parseAllocate(question).bytes;
    const uint64_t offset = process_->lend(Block(bytes), bytes);
    Writer writer(channel_->room());
    writer.put(MessageKind::Allocation);
    writer.put<uint64_t>(1);
    writer.put(offset);
    return exchange(writer.size());
  }

  WireResult result(const std::vector<char>& message) {
    WireResult parsed;
    parseResult(message, process_->memory().bytes, {}, 0, parsed);
    return parsed;
  }

 private:
  std::shared_ptr<DeviceProcess> process_;
  std::unique_ptr<Channel> channel_;
};

class DeviceProcessTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const int device : {0, 1}) {
      DeviceProcess::end(device);
      const DeviceScope scope(device);
      EXPECT_EQ(orDeviceReset(), orSuccess);
    }
    EXPECT_EQ(Block::alive, 0);
  }
};

/// Waits until the device has heard of the end of its process.
void awaitBrokenDevice() {
  while (orDeviceSynchronize() == orSuccess) {
    std::this_thread::yield();
  }
  orGetLastError();
}

TEST_F(DeviceProcessTest, BothSidesSeeTheDevicesMemory) {
  Link link;
  const Block block(1000);
  auto* bytes = static_cast<char*>(block.get());
  std::memset(bytes, 1, 1000);
  EXPECT_EQ(kindOf(link.call("increment", bytes, 1000)), MessageKind::Result);
  EXPECT_EQ(std::string(bytes, 1000), std::string(1000, 2));
}

TEST_F(DeviceProcessTest, ThreadsShareAProcessAndHaveAChannelEach) {
  constexpr int kThreads = 8, kCalls = 100;
  std::latch start(kThreads);
  std::mutex mutex;
  std::set<const DeviceProcess*> processes;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const Block block(64);
      auto* bytes = static_cast<char*>(block.get());
      std::memset(bytes, 0, 64);
      start.arrive_and_wait();
      Link link(i % 2);
      {
        const std::lock_guard lock(mutex);
        processes.insert(&link.process());
      }
      for (int call = 0; call < kCalls && i % 2 == 0; ++call) {
        link.call("increment", bytes, 64);
      }
      EXPECT_EQ(bytes[63], i % 2 == 0 ? kCalls : 0);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(processes.size(), 2u);
}

TEST_F(DeviceProcessTest, MemoryIsLentAndTakenBackByManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      Link link;
      for (int call = 0; call < 50; ++call) {
        const auto wanted = link.call("ask", nullptr, 0, 512 * (i + 1));
        const auto answer = link.result(link.allocate(wanted));
        const WireStorage& storage = answer.storages.at(0);
        EXPECT_EQ(link.process().memoryAt(storage.offset)[0], 7);
        if (call % 2 == 0) {
          link.process().giveBack({storage.offset});
          continue;
        }
        auto& process = link.process();
        // Of the wrong size there is nothing.
        EXPECT_EQ(
            process.takeBack<Block>(storage.offset, 1 << 20).get(), nullptr);
        EXPECT_NE(
            process.takeBack<Block>(storage.offset, storage.bytes).get(),
            nullptr);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(Block::alive, 0);
}

TEST_F(DeviceProcessTest, AnErrorIsAnAnswer) {
  Link link;
  const auto answer = link.call("fail");
  EXPECT_EQ(parseError(answer).text, "it failed");
  EXPECT_EQ(kindOf(link.call("increment")), MessageKind::Result);
}

TEST_F(DeviceProcessTest, AnAnswerThatIsNoMessageIsRefused) {
  Link link;
  EXPECT_THROW(kindOf(link.call("babble")), WireError);
}

TEST_F(DeviceProcessTest, ADeathReachesAllThreadsAndBreaksTheDevice) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      // The device may be lost before a late thread has its link.
      const auto callOn = [i] {
        Link link;
        for (;;) {
          link.call(i == 0 ? "die" : "increment");
        }
      };
      EXPECT_EQ(statusOf(callOn), orErrorDeviceLost);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  awaitBrokenDevice();
  EXPECT_EQ(orDeviceSynchronize(), orErrorDeviceLost);
  EXPECT_EQ(statusOf([] { DeviceProcess::of(0); }), orErrorDeviceLost);
  EXPECT_EQ(statusOf([] { Link(1).call("increment"); }), orSuccess);
}

TEST_F(DeviceProcessTest, AProcessThatIsStoppedIsEnded) {
  Link link;
  std::string what;
  try {
    link.call("stop");
  } catch (const DriverError& error) {
    what = error.what();
  }
  EXPECT_NE(what.find("was stopped by signal 19"), std::string::npos) << what;
  EXPECT_NE(what.find("reset_device(0) starts a new one"), std::string::npos);
  awaitBrokenDevice();
}

TEST_F(
    DeviceProcessTest,
    AnEndOnPurposeBreaksNothingAndTheNextCallStartsAnother) {
  std::vector<std::thread> threads;
  std::atomic<bool> done{false};
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&done] {
      while (!done) {
        // One that was ended meanwhile throws; the next one works.
        statusOf([] { Link().call("increment"); });
      }
    });
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(statusOf([] { Link().call("increment"); }), orSuccess);
    DeviceProcess::end(0);
  }
  done = true;
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
}

TEST_F(DeviceProcessTest, AKernelAddressTellsItsDevice) {
  const Block block(100);
  EXPECT_EQ(deviceOfKernelAddress(block.get()), 0);
  int here = 0;
  EXPECT_EQ(deviceOfKernelAddress(&here), -1);
}

} // namespace
} // namespace openreg::testing
