// Random programs that are correctly synchronised give the same bytes under
// every schedule; programs that lack one synchronisation give wrong bytes under
// the adversarial one, every time.
#include "support.h"

#include <memory>
#include <random>

namespace openreg::testing {
namespace {

constexpr size_t kWords = 48;
constexpr size_t kBytes = kWords * sizeof(uint32_t);
using Words = std::vector<uint32_t>;

// A program over a few buffers and streams of two devices. Each step is issued
// to the library and applied to `expected` at once; a step that touches a
// buffer waits for the earlier steps that conflict with it.
class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed) {
    for (int device : {0, 1}) {
      EXPECT_EQ(orSetDevice(device), orSuccess);
      lanes_.push_back({defaultStream(device), device, Order::Default});
      addLane(device, orStreamDefault, Order::Blocking);
      addLane(device, orStreamNonBlocking, Order::Free);
      addLane(device, orStreamNonBlocking, Order::Free);
      for (int i = 0; i < 2; ++i) {
        memory_.push_back(std::make_unique<DeviceArray<uint32_t>>(kWords));
        EXPECT_EQ(orMemset(memory_.back()->data(), 0, kBytes), orSuccess);
        buffers_.push_back({memory_.back()->data(), device, Words(kWords), {}});
      }
    }
    for (uint32_t i = 1; i <= 2; ++i) {
      pinned_.push_back(std::make_unique<PinnedArray<uint32_t>>(kWords, i));
      buffers_.push_back({pinned_.back()->data(), -1, Words(kWords, i), {}});
    }
    EXPECT_EQ(orSetDevice(0), orSuccess);
  }

  void step() {
    switch (pick(8)) {
      case 0:
      case 1:
        return runKernel(deviceBuffer());
      case 2:
        return copy(deviceBuffer(), deviceBuffer());
      case 3:
        return copy(deviceBuffer(), hostBuffer());
      case 4:
        return copy(hostBuffer(), deviceBuffer());
      case 5:
        return set(deviceBuffer());
      case 6:
        return writeOnHost(hostBuffer());
      default:
        return readOnHost(hostBuffer());
    }
  }

  void check() {
    for (int device : {1, 0}) {
      ASSERT_EQ(orSetDevice(device), orSuccess);
      ASSERT_EQ(orDeviceSynchronize(), orSuccess);
    }
    for (const Buffer& buffer : buffers_) {
      Words bytes(kWords);
      ASSERT_EQ(
          orMemcpy(bytes.data(), buffer.data, kBytes, orMemcpyDefault),
          orSuccess);
      ASSERT_EQ(bytes, buffer.expected);
    }
  }

 private:
  enum class Order { Default, Blocking, Free };
  struct Lane {
    orStream_t stream;
    int device;
    Order order;
  };
  struct Access {
    const Lane* lane;
    std::shared_ptr<Event> done;
    bool write;
  };
  struct Buffer {
    uint32_t* data;
    int device; // -1: pinned host memory
    Words expected;
    std::vector<Access> accesses; // the last write, and the reads since
  };

  size_t pick(size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random_);
  }
  Buffer& deviceBuffer() {
    return buffers_[pick(memory_.size())];
  }
  Buffer& hostBuffer() {
    return buffers_[memory_.size() + pick(pinned_.size())];
  }
  void addLane(int device, unsigned flags, Order order) {
    streams_.push_back(std::make_unique<Stream>(flags));
    lanes_.push_back({*streams_.back(), device, order});
  }
  const Lane& laneOf(int device) {
    const Lane* lane = nullptr;
    do {
      lane = &lanes_[pick(lanes_.size())];
    } while (device >= 0 && lane->device != device);
    return *lane;
  }

  static bool ordered(const Lane& a, const Lane& b) {
    return &a == &b ||
        (a.device == b.device && a.order != Order::Free &&
         b.order != Order::Free &&
         (a.order == Order::Default || b.order == Order::Default));
  }
  static void waitForConflicts(const Lane& lane, Buffer& buffer, bool write) {
    for (const Access& access : buffer.accesses) {
      if ((write || access.write) && !ordered(lane, *access.lane)) {
        ASSERT_EQ(orStreamWaitEvent(lane.stream, *access.done, 0), orSuccess);
      }
    }
  }
  // Issues work that reads and writes the given buffers, as CUDA code would:
  // wait for what conflicts, work, record an event.
  template <class Issue>
  void submit(const Lane& lane, Buffer* reads, Buffer& writes, Issue issue) {
    if (reads) {
      waitForConflicts(lane, *reads, false);
    }
    waitForConflicts(lane, writes, true);
    ASSERT_EQ(issue(), orSuccess);
    ASSERT_EQ(orSetDevice(lane.device), orSuccess);
    const bool timed = pick(4) == 0;
    auto done = std::make_shared<Event>(
        timed ? orEventEnableTiming : orEventDisableTiming);
    ASSERT_EQ(orSetDevice(0), orSuccess);
    ASSERT_EQ(orEventRecord(*done, lane.stream), orSuccess);
    if (reads) {
      reads->accesses.push_back({&lane, done, false});
    }
    writes.accesses = {{&lane, done, true}};
  }

  void runKernel(Buffer& buffer) {
    const Lane& lane = laneOf(buffer.device);
    EXPECT_EQ(orSetDevice(buffer.device), orSuccess);
    auto* const words = static_cast<uint32_t*>(orKernelPointer(buffer.data));
    const orLaunchConfig config{"step", pick(2) ? 1u : 0u};
    submit(lane, nullptr, buffer, [&] {
      return orLaunchKernelEx(&config, lane.stream, [words] {
        for (size_t i = 0; i < kWords; ++i) {
          words[i] = words[i] * 3 + 1;
        }
      });
    });
    for (uint32_t& word : buffer.expected) {
      word = word * 3 + 1;
    }
  }
  void copy(Buffer& to, Buffer& from) {
    if (&to == &from) {
      return;
    }
    const Lane& lane = laneOf(-1);
    submit(lane, &from, to, [&] {
      if (to.device >= 0 && from.device >= 0 && pick(2)) {
        return orMemcpyPeerAsync(
            to.data, to.device, from.data, from.device, kBytes, lane.stream);
      }
      return orMemcpyAsync(
          to.data, from.data, kBytes, orMemcpyDefault, lane.stream);
    });
    to.expected = from.expected;
  }
  void set(Buffer& buffer) {
    const Lane& lane = laneOf(buffer.device);
    const auto value = static_cast<uint32_t>(pick(256));
    submit(lane, nullptr, buffer, [&] {
      return orMemsetAsync(
          buffer.data, static_cast<int>(value), kBytes, lane.stream);
    });
    buffer.expected.assign(kWords, value * 0x01010101u);
  }
  void writeOnHost(Buffer& buffer) {
    for (const Access& access : buffer.accesses) {
      ASSERT_EQ(orEventSynchronize(*access.done), orSuccess);
    }
    buffer.accesses.clear();
    for (size_t i = 0; i < kWords; ++i) {
      buffer.data[i] = buffer.expected[i] = static_cast<uint32_t>(random_());
    }
  }
  void readOnHost(Buffer& buffer) {
    for (const Access& access : buffer.accesses) {
      if (access.write) {
        ASSERT_EQ(orEventSynchronize(*access.done), orSuccess);
      }
    }
    ASSERT_EQ(Words(buffer.data, buffer.data + kWords), buffer.expected);
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<DeviceArray<uint32_t>>> memory_;
  std::vector<std::unique_ptr<PinnedArray<uint32_t>>> pinned_;
  std::vector<Lane> lanes_;
  std::vector<Buffer> buffers_;
};

void runPrograms(uint64_t firstSeed, uint64_t count, int steps) {
  for (uint64_t seed = firstSeed; seed < firstSeed + count; ++seed) {
    SCOPED_TRACE("program " + std::to_string(seed));
    Program program(seed);
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      program.step();
    }
    program.check();
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

TEST(CorrectProgramTest, GivesTheSameBytesUnderThePolicyOfTheEnvironment) {
  runPrograms(1, 40, 150);
}

struct Policy {
  const char* schedule;
  const char* seed;
};

class PolicyTest : public ::testing::TestWithParam<Policy> {};

TEST_P(PolicyTest, ACorrectProgramGivesTheSameBytes) {
  auto body = [this] {
    setenv("OPENREG_SCHEDULE", GetParam().schedule, 1);
    setenv("OPENREG_SEED", GetParam().seed, 1);
    runPrograms(1000, 25, 120);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    PolicyTest,
    ::testing::Values(
        Policy{"auto", "0"},
        Policy{"async", "0"},
        Policy{"adversarial", "0"},
        Policy{"adversarial", "1"},
        Policy{"adversarial", "2"},
        Policy{"adversarial", "12345678901234567890"}),
    [](const auto& test) {
      return std::string(test.param.schedule) + "_" + test.param.seed;
    });

// What the programs with a missing synchronisation have to play with. At first
// the words are 1 in x, 2 in y and 3 in the pinned buffer.
struct Stage {
  Stage() {
    EXPECT_EQ(orMemcpy(x.data(), ones.data(), kBytes, kAny), orSuccess);
    EXPECT_EQ(orMemcpy(y.data(), twos.data(), kBytes, kAny), orSuccess);
  }
  static constexpr orMemcpyKind kAny = orMemcpyDefault;
  const Words ones = Words(kWords, 1), twos = Words(kWords, 2);
  DeviceArray<uint32_t> x{kWords}, y{kWords};
  PinnedArray<uint32_t> pinned{kWords, 3};
  Stream first, second;
};

// Each returns a word that would be `right` if nothing were missing.
struct Race {
  const char* name;
  uint32_t right;
  uint32_t (*run)(Stage&);
};

void copyAsync(void* to, const void* from, orStream_t stream) {
  EXPECT_EQ(orMemcpyAsync(to, from, kBytes, Stage::kAny, stream), orSuccess);
}
void addTen(const DeviceArray<uint32_t>& array, orStream_t stream) {
  uint32_t* const words = array.kernel();
  auto add = [words] {
    for (size_t i = 0; i < kWords; ++i) {
      words[i] += 10;
    }
  };
  EXPECT_EQ(orLaunchKernel(stream, add), orSuccess);
}

const Race kRaces[] = {
    {"HostReadsACopyItDidNotWaitFor",
     1,
     [](Stage& s) {
       copyAsync(s.pinned.data(), s.x.data(), s.first);
       const uint32_t seen = s.pinned[kWords - 1];
       EXPECT_EQ(orStreamSynchronize(s.first), orSuccess);
       return seen;
     }},
    {"HostOverwritesASourceThatIsStillNeeded",
     3,
     [](Stage& s) {
       copyAsync(s.x.data(), s.pinned.data(), s.first);
       s.pinned[0] = 99;
       EXPECT_EQ(orStreamSynchronize(s.first), orSuccess);
       return s.x.read()[0];
     }},
    {"ConsumerDoesNotWaitForTheProducer",
     11,
     [](Stage& s) {
       addTen(s.x, s.first);
       copyAsync(s.pinned.data(), s.x.data(), s.second);
       EXPECT_EQ(orStreamSynchronize(s.second), orSuccess);
       return s.pinned[0];
     }},
    {"WriterDoesNotWaitForTheReader",
     1,
     [](Stage& s) {
       copyAsync(s.y.data(), s.x.data(), s.first);
       addTen(s.x, s.second);
       EXPECT_EQ(orStreamSynchronize(s.second), orSuccess);
       EXPECT_EQ(orStreamSynchronize(s.first), orSuccess);
       return s.y.read()[0];
     }},
    {"TwoStreamsRaceAndTheDeviceIsSynchronized",
     11,
     [](Stage& s) {
       addTen(s.x, s.first);
       copyAsync(s.pinned.data(), s.x.data(), s.second);
       EXPECT_EQ(orDeviceSynchronize(), orSuccess);
       return s.pinned[0];
     }},
};

class RaceTest : public ::testing::TestWithParam<Race> {};

TEST_P(RaceTest, GivesWrongBytesEveryTimeUnderAdversarial) {
  auto body = [this] {
    setenv("OPENREG_SCHEDULE", "adversarial", 1);
    setenv("OPENREG_SEED", "0", 1);
    int wrong = 0;
    for (int i = 0; i < 50; ++i) {
      Stage stage;
      wrong += GetParam().run(stage) != GetParam().right ? 1 : 0;
    }
    EXPECT_EQ(wrong, 50);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    RaceTest,
    ::testing::ValuesIn(kRaces),
    [](const auto& test) { return std::string(test.param.name); });

} // namespace
} // namespace openreg::testing
