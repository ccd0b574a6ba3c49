// In which order streams run their work, and what many launching threads see.
#include "support.h"

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include <sys/syscall.h>
#include <unistd.h>

namespace openreg::testing {
namespace {

// Asks many times, so that work that runs too early is seen to have run.
void expectStaysBusy(orStream_t stream) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(orStreamQuery(stream), orErrorNotReady);
    std::this_thread::yield();
  }
}

// What kernels did, in the order in which they did it. The order of the streams
// is all that guards it, so the thread sanitizer checks that order too.
class Log {
 public:
  // Does not die before the kernels that write to it, also if a test fails.
  ~Log() {
    orDeviceSynchronize();
  }
  void add(orStream_t stream, char entry) {
    EXPECT_EQ(
        orLaunchKernel(stream, [this, entry] { text_ += entry; }), orSuccess);
  }
  const std::string& text() const {
    return text_;
  }

 private:
  std::string text_;
};

TEST(StreamOrderTest, BlockingStreamsWaitForEarlierWorkOfTheDefaultStream) {
  Stream blocking(orStreamDefault), independent(orStreamNonBlocking);
  Log log;
  Gate gate(defaultStream());
  log.add(defaultStream(), 'd');
  log.add(blocking, 'b');
  Stream created(orStreamDefault);
  ASSERT_EQ(orLaunchKernel(created, [] {}), orSuccess);
  ASSERT_EQ(orLaunchKernel(independent, [] {}), orSuccess);
  ASSERT_EQ(orStreamSynchronize(independent), orSuccess);
  expectStaysBusy(blocking);
  expectStaysBusy(created);

  gate.open();
  ASSERT_EQ(orStreamSynchronize(blocking), orSuccess);
  EXPECT_EQ(log.text(), "db");
}

TEST(StreamOrderTest, TheDefaultStreamWaitsForEarlierWorkOfBlockingStreams) {
  Stream blocking(orStreamDefault), second(orStreamDefault);
  Log log;
  Gate gate(blocking);
  log.add(blocking, 'b');
  log.add(defaultStream(), 'd');
  log.add(second, 's');
  expectStaysBusy(defaultStream());
  expectStaysBusy(second);

  gate.open();
  ASSERT_EQ(orStreamSynchronize(second), orSuccess);
  EXPECT_EQ(log.text(), "bds");
}

TEST(StreamOrderTest, TheDefaultStreamIgnoresNonBlockingStreamsAndDevices) {
  Stream independent(orStreamNonBlocking);
  Gate gate(independent);
  Gate elsewhere(defaultStream(1));
  bool ran = false;
  ASSERT_EQ(orLaunchKernel(defaultStream(), [&ran] { ran = true; }), orSuccess);
  ASSERT_EQ(orStreamSynchronize(defaultStream()), orSuccess);
  EXPECT_TRUE(ran);
  EXPECT_EQ(orStreamQuery(independent), orErrorNotReady);
  elsewhere.open();
  EXPECT_EQ(orStreamSynchronize(defaultStream(1)), orSuccess);
}

TEST(StreamOrderTest, TheDefaultStreamIsBusyWhileABlockingStreamIs) {
  Stream blocking(orStreamDefault);
  int ran = 0;
  Gate gate(blocking);
  ASSERT_EQ(orLaunchKernel(blocking, [&ran] { ++ran; }), orSuccess);
  expectStaysBusy(defaultStream());
  EXPECT_EQ(orStreamQuery(defaultStream(1)), orSuccess);
  EXPECT_TRUE(waitsForGate(gate, [] {
    EXPECT_EQ(orStreamSynchronize(defaultStream()), orSuccess);
  }));
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(orStreamQuery(defaultStream()), orSuccess);
}

TEST(StreamOrderTest, BlockingStreamsDoNotWaitForOneAnother) {
  Stream first(orStreamDefault), second(orStreamDefault);
  Gate gate(first);
  ASSERT_EQ(orLaunchKernel(second, [] {}), orSuccess);
  EXPECT_EQ(orStreamSynchronize(second), orSuccess);
  EXPECT_EQ(orStreamQuery(first), orErrorNotReady);
}

// One of two launching threads may note that the stream waits for the default
// stream; the other may not rely on it before the wait is queued. The threads
// start together, a little more apart in each round.
TEST(StreamOrderTest, ThreadsThatLaunchAtOnceAllWaitForTheDefaultStream) {
  constexpr int kRounds = 2000;
  Stream blocking(orStreamDefault);
  std::atomic<int> value = 0, tooEarly = 0, started = 0, launched = 0;
  const auto launch = [&](int round, int delay) {
    for (std::atomic<int> i = 0; i < delay; ++i) {
    }
    auto check = [&, round] { tooEarly += value < round ? 1 : 0; };
    EXPECT_EQ(orLaunchKernel(blocking, check), orSuccess);
  };
  std::thread other([&] {
    for (int round = 1; round <= kRounds; ++round) {
      while (started < round) {
        std::this_thread::yield();
      }
      launch(round, round / 50 % 20);
      launched = round;
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    Gate gate(defaultStream());
    auto store = [&value, round] { value = round; };
    EXPECT_EQ(orLaunchKernel(defaultStream(), store), orSuccess);
    started = round;
    launch(round, round % 50);
    while (launched < round) {
      std::this_thread::yield();
    }
    gate.open();
    EXPECT_EQ(orStreamSynchronize(blocking), orSuccess);
  }
  other.join();
  EXPECT_EQ(tooEarly, 0);
}

TEST(StreamProducersTest, LoseNothingAndKeepEachThreadsOrder) {
  constexpr int kThreads = 4, kLaunches = 2000;
  Stream stream;
  std::vector<std::pair<int, int>> ran;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kLaunches; ++i) {
        auto note = [&ran, thread, i] { ran.emplace_back(thread, i); };
        ASSERT_EQ(orLaunchKernel(stream, note), orSuccess);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(ran.size(), size_t{kThreads} * kLaunches);
  int next[kThreads] = {};
  for (const auto& [thread, i] : ran) {
    ASSERT_EQ(i, next[thread]++) << "of thread " << thread;
  }
}

// The third field of /proc/<pid>/stat, behind the name in parentheses.
char stateOfThread(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::stringstream text;
  text << file.rdbuf();
  const size_t end = text.str().rfind(')');
  return end == std::string::npos ? '?' : text.str()[end + 2];
}

TEST(StreamBackPressureTest, LaunchesBlockWhileTheQueueIsFullAndAllRun) {
  constexpr int kLaunches = 5000, kSlots = 1024;
  Stream stream;
  Gate gate(stream);
  std::atomic<int> launched = 0, ran = 0;
  std::atomic<pid_t> thread = 0;
  std::thread launcher([&] {
    thread = static_cast<pid_t>(syscall(SYS_gettid));
    for (int i = 0; i < kLaunches; ++i) {
      ASSERT_EQ(orLaunchKernel(stream, [&ran] { ++ran; }), orSuccess);
      ++launched;
    }
  });
  // It sleeps for lack of a slot, or has launched all of them.
  while (launched < kSlots - 1 ||
         (launched < kLaunches && stateOfThread(thread) != 'S')) {
    std::this_thread::yield();
  }
  EXPECT_LE(launched, kSlots + 1);
  EXPECT_EQ(ran, 0);
  gate.open();
  launcher.join();
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(ran, kLaunches);
}

} // namespace
} // namespace openreg::testing
