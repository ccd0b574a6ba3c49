// Collectives of ranks that share memory: threads here, with memory of their own each.
#include "distributed/SharedTransport.h"

#include "distributed/LargeCopy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <thread>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace c10::openreg::occl {
namespace {

constexpr size_t kBytes = 4 << 20; // of each rank's device

Deadline within(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}
const auto kSoon = std::chrono::seconds(20);

struct World {
  explicit World(int size)
      : size(size),
        board(remote::makeSharedMemory("board", SharedBoard::bytesFor(size))) {
    for (int rank = 0; rank < size; ++rank) {
      files.push_back(remote::makeSharedMemory("device", kBytes));
      maps.emplace_back(files.back(), kBytes);
    }
  }

  std::unique_ptr<SharedTransport> join(int rank, int process = getpid()) {
    std::vector<SharedTransport::Rank> ranks;
    for (int other = 0; other < size; ++other) {
      const auto i = static_cast<size_t>(other);
      ranks.push_back(
          {process,
           {{other == rank ? maps[i].data() : nullptr,
             addressOf(files[i].get(), kBytes)}}});
      ranks.back().memories[0].address.process = process;
    }
    return std::make_unique<SharedTransport>(
        remote::Mapping(board, SharedBoard::bytesFor(size)),
        rank,
        std::move(ranks),
        "g");
  }

  /// Runs a function in a thread per rank; returns what was thrown.
  std::vector<std::string> run(
      const std::function<void(int, SharedTransport&)>& body) {
    std::vector<std::string> errors(static_cast<size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        const auto transport = join(rank);
        try {
          body(rank, *transport);
        } catch (const std::exception& error) {
          errors[static_cast<size_t>(rank)] = error.what();
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    return errors;
  }

  template <class T>
  T* memory(int rank, size_t offset = 0) {
    return reinterpret_cast<T*>(
        maps[static_cast<size_t>(rank)].data() + offset);
  }

  const int size;
  remote::Descriptor board;
  std::vector<remote::Descriptor> files;
  std::vector<remote::Mapping> maps;
};

template <class T>
Span over(T* data, size_t count) {
  return {reinterpret_cast<char*>(data), count * sizeof(T)};
}

Collective allReduce(Span memory, Operation operation = Operation::Sum) {
  Collective call;
  call.kind = Kind::AllReduce;
  call.type = DataType::Float;
  call.operation = operation;
  call.inputs = call.outputs = {memory};
  return call;
}

void expectNone(const std::vector<std::string>& errors) {
  for (const auto& error : errors) {
    EXPECT_EQ(error, "");
  }
}

// Small, in place, and memory of the heap, which others cannot reach.
class Sizes : public ::testing::TestWithParam<std::tuple<int, size_t, bool>> {};

TEST_P(Sizes, EveryCollectiveBringsWhatTheOthersGave) {
  const auto [size, count, heap] = GetParam();
  World world(size);
  const auto n = static_cast<size_t>(size);
  expectNone(world.run([&](int rank, SharedTransport& transport) {
    std::vector<float> own(2 * n * count);
    float* const in = heap ? own.data() : world.memory<float>(rank);
    float* const out = in + n * count;
    const auto value = [&](int from, int to, size_t i) {
      return static_cast<float>(100 * from + 10 * to) +
          static_cast<float>(i % 7);
    };
    const auto parts = [&](float* data) {
      std::vector<Span> spans;
      for (size_t r = 0; r < n; ++r) {
        spans.push_back(over(data + r * count, count));
      }
      return spans;
    };
    for (int round = 0; round < 3; ++round) {
      const int root = round % size;
      const auto fill = [&] {
        for (int to = 0; to < size; ++to) {
          for (size_t i = 0; i < count; ++i) {
            in[static_cast<size_t>(to) * count + i] = value(rank, to, i);
          }
        }
        std::fill(out, out + n * count, -1.0f);
      };
      Collective call;
      call.type = DataType::Float;

      fill();
      call.kind = Kind::AllToAll;
      call.inputs = parts(in);
      call.outputs = parts(out);
      transport.run(call, within(kSoon));
      for (int from = 0; from < size; ++from) {
        for (size_t i = 0; i < count; i += 97) {
          ASSERT_EQ(
              out[static_cast<size_t>(from) * count + i], value(from, rank, i));
        }
      }
      fill();
      call.kind = Kind::ReduceScatter;
      call.operation = Operation::Sum;
      call.outputs = {over(out, count)};
      transport.run(call, within(kSoon));
      for (size_t i = 0; i < count; i += 97) {
        float sum = 0;
        for (int from = 0; from < size; ++from) {
          sum += value(from, rank, i);
        }
        ASSERT_EQ(out[i], sum);
      }
      fill();
      transport.run(allReduce(over(in, count)), within(kSoon));
      for (size_t i = 0; i < count; i += 97) {
        float sum = 0;
        for (int from = 0; from < size; ++from) {
          sum += value(from, 0, i);
        }
        ASSERT_EQ(in[i], sum);
      }
      fill();
      call.kind = Kind::AllGather;
      call.operation = Operation::None;
      call.inputs = {over(in, count)};
      call.outputs = parts(out);
      transport.run(call, within(kSoon));
      for (int from = 0; from < size; ++from) {
        ASSERT_EQ(out[static_cast<size_t>(from) * count], value(from, 0, 0));
      }
      fill();
      call.kind = Kind::Broadcast;
      call.root = root;
      call.outputs = {over(in, count)};
      call.inputs = rank == root ? call.outputs : std::vector<Span>{};
      transport.run(call, within(kSoon));
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(in[i], value(root, 0, i));
      }
      fill();
      call.kind = Kind::Scatter;
      call.inputs = rank == root ? parts(in) : std::vector<Span>{};
      call.outputs = {over(out, count)};
      transport.run(call, within(kSoon));
      ASSERT_EQ(out[count - 1], value(root, rank, count - 1));
      fill();
      call.kind = Kind::Reduce;
      call.operation = Operation::Max;
      call.inputs = {over(in, count)};
      call.outputs =
          rank == root ? std::vector{over(out, count)} : std::vector<Span>{};
      transport.run(call, within(kSoon));
      ASSERT_EQ(
          out[count - 1], rank == root ? value(size - 1, 0, count - 1) : -1.0f);
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    Sizes,
    ::testing::Combine(
        ::testing::Values(1, 2, 3, 5),
        ::testing::Values(size_t{1}, size_t{1000}, size_t{40'000}),
        ::testing::Bool()));

// Long enough for copies past the caches.
TEST(SharedTransportTest, LargeMessagesArriveWhole) {
  constexpr size_t kCount = 700'001;
  World world(2);
  expectNone(world.run([&](int rank, SharedTransport& transport) {
    auto* const data = world.memory<float>(rank, 4);
    std::fill(data, data + kCount, static_cast<float>(rank));
    Collective call;
    call.kind = Kind::Broadcast;
    call.type = DataType::Float;
    call.root = 1;
    call.outputs = {over(data, kCount)};
    call.inputs = rank == 1 ? call.outputs : std::vector<Span>{};
    transport.run(call, within(kSoon));
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(data[i], 1.0f);
    }
    ASSERT_EQ(world.memory<float>(rank)[0], 0.0f);
    ASSERT_EQ(data[kCount], 0.0f);
  }));
}

TEST(LargeCopyTest, CopiesFromAndToAnyAddress) {
  std::string from(1000, ' '), to(1000, '.');
  for (size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<char>('a' + i % 23);
  }
  for (const size_t bytes : {0, 1, 63, 64, 65, 200, 900}) {
    for (const size_t place : {0, 1, 17, 63}) {
      std::fill(to.begin(), to.end(), '.');
      copyLarge(to.data() + place, from.data() + 5, bytes);
      EXPECT_EQ(to.substr(place, bytes), from.substr(5, bytes));
      EXPECT_EQ(to.substr(0, place), std::string(place, '.'));
      EXPECT_EQ(to[place + bytes], '.');
    }
  }
}

TEST(SharedTransportTest, CallsThatDoNotMatchTouchNothingAndTellBoth) {
  World world(2);
  const auto errors = world.run([&](int rank, SharedTransport& transport) {
    world.memory<float>(rank)[0] = 7;
    transport.run(
        allReduce(over(world.memory<float>(rank), rank == 0 ? 50'000 : 60'000)),
        within(kSoon));
  });
  for (const auto& error : errors) {
    EXPECT_NE(error.find("gives 200000"), std::string::npos) << error;
    EXPECT_NE(error.find("gives 240000"), std::string::npos) << error;
  }
  EXPECT_EQ(world.memory<float>(0)[0], 7);
  EXPECT_EQ(world.memory<float>(1)[0], 7);
}

TEST(SharedTransportTest, TheDeadlineAndTheFailureReachEverybody) {
  World world(3);
  const auto errors = world.run([&](int rank, SharedTransport& transport) {
    if (rank != 2) {
      transport.run(
          allReduce(over(world.memory<float>(rank), 10)),
          within(std::chrono::milliseconds(rank == 0 ? 100 : 20'000)));
    }
  });
  EXPECT_NE(errors[0].find("waited in vain for rank"), std::string::npos);
  EXPECT_EQ(errors[1], errors[0]); // rank 0 has told it
}

TEST(SharedTransportTest, AnAbortWakesThoseWhoWait) {
  World world(2);
  const auto transport = world.join(0);
  std::thread waiter([&] {
    EXPECT_THROW(
        transport->run(
            allReduce(over(world.memory<float>(0), 10)), within(kSoon)),
        Failure);
  });
  transport->abort("enough");
  waiter.join();
}

TEST(SharedTransportTest, ARankThatEndedIsNamed) {
  World world(2);
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGKILL);
  }
  const auto transport = world.join(0, child);
  const auto begin = std::chrono::steady_clock::now();
  try {
    transport->run(allReduce(over(world.memory<float>(0), 10)), within(kSoon));
    FAIL();
  } catch (const Failure& error) {
    EXPECT_NE(
        std::string(error.what()).find("rank 1 of group 'g' has ended"),
        std::string::npos);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  waitpid(child, nullptr, 0);
}

} // namespace
} // namespace c10::openreg::occl
