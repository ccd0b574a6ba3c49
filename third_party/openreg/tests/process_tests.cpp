// The life of a process that uses the library: start, rest, fork and exit.
#include "support.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace openreg::testing {
namespace {

// A child that hangs is killed, and its test fails.
void endIfItHangs() {
  alarm(60);
}

std::string readFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::set<std::string> threadsOfTheProcess() {
  std::set<std::string> threads;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(entry.path().string());
  }
  return threads;
}

size_t addressSpaceOfTheProcess() {
  const size_t pages = std::stoull(readFile("/proc/self/statm"));
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Runs a kernel on a new stream and reads back what it wrote.
void expectTheDeviceWorks() {
  Stream stream;
  DeviceArray<int> array(1);
  int* const kernel = array.kernel();
  EXPECT_EQ(orLaunchKernel(stream, [kernel] { *kernel = 7; }), orSuccess);
  EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(array.read()[0], 7);
}

TEST(StartTest, CountingDevicesStartsNeitherThreadsNorMemory) {
  auto body = [] {
    constexpr size_t kLittle = size_t{64} << 20;
    const auto threads = threadsOfTheProcess();
    const size_t before = addressSpaceOfTheProcess();
#ifndef __SANITIZE_THREAD__ // which has a thread of its own
    EXPECT_EQ(threads.size(), 1u);
#endif
    int count = 0;
    EXPECT_EQ(orGetDeviceCount(&count), orSuccess);
    EXPECT_EQ(threadsOfTheProcess(), threads);
    EXPECT_LT(addressSpaceOfTheProcess() - before, kLittle);

    expectTheDeviceWorks();
    EXPECT_GT(threadsOfTheProcess().size(), threads.size());
    EXPECT_GT(addressSpaceOfTheProcess() - before, kLittle);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(StartTest, AStreamWithoutWorkHasNoThread) {
  auto body = [] {
    const auto threads = threadsOfTheProcess();
    Stream streams[10];
    Event event;
    EXPECT_EQ(orEventRecord(event, streams[0]), orSuccess);
    EXPECT_EQ(orStreamWaitEvent(streams[1], event, 0), orSuccess);
    EXPECT_EQ(orStreamSynchronize(streams[2]), orSuccess);
    EXPECT_EQ(orDeviceSynchronize(), orSuccess);
    EXPECT_EQ(threadsOfTheProcess(), threads);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

// What a thread did, and whether it sleeps: its state, its processor time and
// how often it went to sleep.
struct Rest {
  bool asleep = true;
  std::map<std::string, std::string> counters;
};

Rest restOf(const std::set<std::string>& threads) {
  Rest rest;
  for (const std::string& thread : threads) {
    const std::string stat = readFile(thread + "/stat");
    std::istringstream fields(stat.substr(stat.rfind(')') + 2));
    std::string state, skipped, user, system;
    fields >> state;
    for (int field = 4; field < 14; ++field) {
      fields >> skipped;
    }
    fields >> user >> system;
    const std::string status = readFile(thread + "/status");
    rest.asleep = rest.asleep && state == "S";
    rest.counters[thread] = user + " " + system +
        status.substr(status.find("\nvoluntary_ctxt_switches"));
  }
  return rest;
}

TEST(RestTest, AnIdleProcessUsesNoProcessor) {
  auto body = [] {
    const auto before = threadsOfTheProcess();
    Stream first, second(orStreamDefault), third(orStreamNonBlocking, -1);
    Event event;
    DeviceArray<char> array(size_t{4} << 20);
    EXPECT_EQ(orSetTransferThreads(3), orSuccess);
    EXPECT_EQ(orMemset(array.data(), 1, array.bytes()), orSuccess);
    for (int i = 0; i < 100; ++i) {
      for (orStream_t stream : {orStream_t{first}, orStream_t{second}}) {
        EXPECT_EQ(orLaunchKernel(stream, [] {}), orSuccess);
        EXPECT_EQ(orEventRecord(event, stream), orSuccess);
        EXPECT_EQ(orStreamWaitEvent(third, event, 0), orSuccess);
        EXPECT_EQ(orLaunchKernel(third, [] {}), orSuccess);
      }
    }
    EXPECT_EQ(orDeviceSynchronize(), orSuccess);
    std::set<std::string> workers;
    for (const std::string& thread : threadsOfTheProcess()) {
      if (before.count(thread) == 0) {
        workers.insert(thread);
      }
    }
    EXPECT_GE(workers.size(), 5u);

    // They go to sleep and then stay asleep, which a busy machine may delay.
    bool rested = false;
    for (int tries = 0; !rested && tries < 1000; ++tries) {
      const Rest start = restOf(workers);
      for (int i = 0; start.asleep && i < 10'000; ++i) {
        std::this_thread::yield();
      }
      const Rest end = restOf(workers);
      rested = start.asleep && end.asleep && start.counters == end.counters;
    }
    EXPECT_TRUE(rested);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

// Runs `body` in a forked child and returns whether it found all well there.
template <class Body>
bool wellInFork(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    endIfItHangs();
    std::exit(body() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ForkTest, AChildForkedAfterUseIsToldSoAndTheParentGoesOn) {
  auto body = [] {
    endIfItHangs();
    Stream stream;
    Event event;
    DeviceArray<int> array(1);
    EXPECT_EQ(orLaunchKernel(stream, [] {}), orSuccess);
    EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
    Gate gate(stream);
    auto inChild = [&] {
      void* memory = nullptr;
      orStream_t made = nullptr;
      const orError_t errors[] = {
          orStreamSynchronize(stream),
          orDeviceSynchronize(),
          orStreamQuery(stream),
          orLaunchKernel(stream, [] {}),
          orEventRecord(event, stream),
          orEventSynchronize(event),
          orStreamCreate(&made),
          orMalloc(&memory, 16),
          orFree(array.data()),
          orMemset(array.data(), 0, 4),
          orSetDevice(0),
          orDeviceReset(),
          orStreamDestroy(stream),
          orEventDestroy(event),
      };
      for (orError_t error : errors) {
        EXPECT_EQ(error, orErrorInitializationError);
      }
      EXPECT_EQ(orGetLastError(), orErrorInitializationError);
      EXPECT_EQ(orMalloc(&memory, 16), orErrorInitializationError);
      EXPECT_TRUE(detailHas("fork"));
      return childWentWell();
    };
    EXPECT_TRUE(wellInFork(inChild));
    EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
    gate.open();
    EXPECT_EQ(orStreamSynchronize(stream), orSuccess);
    expectTheDeviceWorks();
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ForkTest, AChildForkedBeforeFirstUseWorks) {
  auto body = [] {
    endIfItHangs();
    auto inChild = [] {
      expectTheDeviceWorks();
      return childWentWell();
    };
    EXPECT_TRUE(wellInFork(inChild));
    int count = 0;
    EXPECT_EQ(orGetDeviceCount(&count), orSuccess);
    EXPECT_TRUE(wellInFork(inChild)) << "to count devices is no use of them";
    expectTheDeviceWorks();
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ForkTest, AThreadThatHelpsWithACopyCountsAsUse) {
  auto body = [] {
    endIfItHangs();
    const std::vector<char> source(size_t{4} << 20, 1);
    std::vector<char> target(source.size());
    EXPECT_EQ(orSetTransferThreads(2), orSuccess);
    EXPECT_EQ(
        orMemcpy(
            target.data(), source.data(), source.size(), orMemcpyHostToHost),
        orSuccess);
    EXPECT_EQ(target, source);
    auto inChild = [] {
      EXPECT_EQ(orDeviceSynchronize(), orErrorInitializationError);
      return childWentWell();
    };
    EXPECT_TRUE(wellInFork(inChild));
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ExitTest, QueuedWorkIsNoObstacle) {
  auto body = [] {
    endIfItHangs();
    orStream_t stream = nullptr;
    EXPECT_EQ(orStreamCreate(&stream), orSuccess);
    static std::atomic<int> last;
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(orLaunchKernel(stream, [i] { last = i; }), orSuccess);
      EXPECT_EQ(orLaunchKernel(defaultStream(1), [] {}), orSuccess);
    }
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

// Opened by nobody; static, so that leak checkers find it.
std::promise<void>& closedGate() {
  static auto* const promise = new std::promise<void>;
  return *promise;
}

void holdForEver(orStream_t stream) {
  static std::atomic<bool> started;
  auto wait = [open = closedGate().get_future().share()] {
    started = true;
    open.wait();
  };
  EXPECT_EQ(orLaunchKernel(stream, wait), orSuccess);
  while (!started) {
    EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
    std::this_thread::yield();
  }
}

TEST(ExitTest, AKernelThatNeverEndsIsNoObstacle) {
  auto body = [] {
    endIfItHangs();
    orStream_t stream = nullptr;
    EXPECT_EQ(orStreamCreate(&stream), orSuccess);
    holdForEver(stream);
    EXPECT_EQ(orLaunchKernel(stream, [] {}), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ExitTest, AThreadThatGoesOnLaunchingIsNoObstacle) {
  auto body = [] {
    endIfItHangs();
    orStream_t stream = nullptr;
    EXPECT_EQ(orStreamCreate(&stream), orSuccess);
    std::atomic<bool> started = false;
    std::thread([stream, &started] {
      EXPECT_EQ(orLaunchKernel(stream, [] {}), orSuccess);
      started = true;
      while (orLaunchKernel(stream, [] {}) == orSuccess) {
      }
      pause();
    }).detach();
    while (!started) {
      std::this_thread::yield();
    }
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

// Calls the library when the process ends, and makes a surprise the exit code.
class AtTheEnd {
 public:
  explicit AtTheEnd(std::function<bool()> check) : check_(std::move(check)) {}
  ~AtTheEnd() {
    if (!check_()) {
      _exit(3);
    }
  }

 private:
  std::function<bool()> check_;
};

TEST(ExitTest, StaticDestructorsMayUseWhatTheyMadeBefore) {
  auto body = [] {
    endIfItHangs();
    static orStream_t stream = nullptr;
    static void* memory = nullptr;
    // The first outlives the library's own end, the second does not.
    static const AtTheEnd late([] {
      int device = -1;
      return orGetDevice(&device) == orSuccess &&
          orLaunchKernel(stream, [] {}) == orErrorRuntimeUnloading &&
          orStreamDestroy(stream) == orSuccess && orFree(memory) == orSuccess &&
          orGetLastError() != orSuccess;
    });
    expectTheDeviceWorks();
    static const AtTheEnd early([] {
      bool ran = false;
      return orLaunchKernel(stream, [&ran] { ran = true; }) == orSuccess &&
          orStreamSynchronize(stream) == orSuccess && ran;
    });
    EXPECT_EQ(orStreamCreate(&stream), orSuccess);
    EXPECT_EQ(orMalloc(&memory, 16), orSuccess);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ExitTest, AStaticDestructorIsNotLeftWaitingForAbandonedWork) {
  auto body = [] {
    endIfItHangs();
    static orStream_t stream = nullptr;
    static const AtTheEnd late([] {
      return orStreamSynchronize(stream) == orErrorRuntimeUnloading &&
          orDeviceSynchronize() == orErrorRuntimeUnloading &&
          lastDetail() != "";
    });
    EXPECT_EQ(orStreamCreate(&stream), orSuccess);
    holdForEver(stream);
    return childWentWell();
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

} // namespace
} // namespace openreg::testing
