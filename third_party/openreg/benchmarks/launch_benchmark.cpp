// Launches, waits, allocations and copies, each beside a reference from the same
// process, because absolute times on a shared machine mean little. The reference
// for launches is a queue of std::function under a mutex and a condition variable
// with one worker.
#include "openreg.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double nanosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

void check(orError_t status) {
  if (status != orSuccess) {
    std::fprintf(
        stderr, "%s: %s\n", orGetErrorName(status), orGetLastErrorDetail());
    std::exit(1);
  }
}

std::atomic<long> ran{0};

void kernel(int value, void*, double) {
  ran.fetch_add(value, std::memory_order_relaxed);
}

class ReferenceQueue {
 public:
  ReferenceQueue() : worker_([this] { work(); }) {}
  ~ReferenceQueue() {
    launch(nullptr);
    worker_.join();
  }
  void launch(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      ++pending_;
    }
    ready_.notify_one();
  }
  void synchronize() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return pending_ == 0; });
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return !tasks_.empty(); });
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task) {
        return;
      }
      task();
      lock.lock();
      if (--pending_ == 0) {
        idle_.notify_all();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable ready_, idle_;
  std::deque<std::function<void()>> tasks_;
  long pending_ = 0;
  std::thread worker_;
};

struct LaunchCost {
  double submit = 1e18, total = 1e18, roundTrip = 1e18;
};

template <class Launch, class Wait>
LaunchCost measure(Launch launch, Wait wait) {
  constexpr int kRounds = 15, kBurst = 20000, kTrips = 500;
  LaunchCost best;
  for (int round = 0; round < kRounds; ++round) {
    auto start = Clock::now();
    for (int i = 0; i < kBurst; ++i) {
      launch();
    }
    best.submit = std::min(best.submit, nanosecondsSince(start) / kBurst);
    wait();
    best.total = std::min(best.total, nanosecondsSince(start) / kBurst);
    start = Clock::now();
    for (int i = 0; i < kTrips; ++i) {
      launch();
      wait();
    }
    best.roundTrip = std::min(best.roundTrip, nanosecondsSince(start) / kTrips);
  }
  return best;
}

void benchmarkLaunches(orStream_t stream) {
  const LaunchCost device = measure(
      [&] {
        check(orLaunchKernel(
            stream, kernel, 1, static_cast<void*>(nullptr), 2.0));
      },
      [&] { check(orStreamSynchronize(stream)); });
  ReferenceQueue reference;
  const LaunchCost queue = measure(
      [&] { reference.launch([] { kernel(1, nullptr, 2.0); }); },
      [&] { reference.synchronize(); });
  std::printf(
      "%-32s %9s %9s %7s\n", "launch (ns)", "openreg", "queue", "ratio");
  const auto row = [](const char* name, double ours, double theirs) {
    std::printf(
        "  %-30s %9.0f %9.0f %7.2f\n", name, ours, theirs, ours / theirs);
  };
  row("submit", device.submit, queue.submit);
  row("submit and run", device.total, queue.total);
  row("round trip", device.roundTrip, queue.roundTrip);
}

// The reference: a list of functions that a loop calls.
void benchmarkGraphs(orStream_t stream) {
  constexpr int kRounds = 15, kLaunches = 500, kNodes = 100;
  std::printf("%-32s %9s %9s\n", "graph, a node (ns)", "openreg", "list");
  for (const unsigned flags : {orLaunchSmall, orLaunchDefault}) {
    const orLaunchConfig config{"node", flags};
    std::vector<std::function<void()>> list;
    check(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
    for (int i = 0; i < kNodes; ++i) {
      const auto node = [i] { kernel(i, nullptr, 2.0); };
      check(orLaunchKernelEx(&config, stream, node));
      list.emplace_back(node);
    }
    orGraph_t graph = nullptr;
    orGraphExec_t exec = nullptr;
    check(orStreamEndCapture(stream, &graph));
    check(orGraphInstantiate(&exec, graph, 0));
    double device = 1e18, plain = 1e18;
    for (int round = 0; round < kRounds; ++round) {
      auto start = Clock::now();
      for (int i = 0; i < kLaunches; ++i) {
        check(orGraphLaunch(exec, stream));
      }
      check(orStreamSynchronize(stream));
      device = std::min(device, nanosecondsSince(start) / kLaunches / kNodes);
      start = Clock::now();
      for (int i = 0; i < kLaunches; ++i) {
        for (const auto& node : list) {
          node();
        }
      }
      plain = std::min(plain, nanosecondsSince(start) / kLaunches / kNodes);
    }
    std::printf(
        "  %-30s %9.1f %9.1f\n",
        flags == orLaunchSmall ? "small: on the calling thread" : "queued",
        device,
        plain);
    check(orGraphExecDestroy(exec));
    check(orGraphDestroy(graph));
  }
}

void benchmarkAllocation() {
  constexpr int kRounds = 10, kPairs = 500;
  constexpr size_t kBytes = 1 << 16;
  double device = 1e18, heap = 1e18;
  for (int round = 0; round < kRounds; ++round) {
    auto start = Clock::now();
    for (int i = 0; i < kPairs; ++i) {
      void* pointer = nullptr;
      check(orMalloc(&pointer, kBytes));
      check(orFree(pointer));
    }
    device = std::min(device, nanosecondsSince(start) / kPairs);
    start = Clock::now();
    for (int i = 0; i < kPairs; ++i) {
      void* volatile pointer = std::malloc(kBytes);
      std::free(pointer);
    }
    heap = std::min(heap, nanosecondsSince(start) / kPairs);
  }
  std::printf("malloc+free of 64 KiB, heap (ns) %9.0f %9.0f\n", device, heap);
}

// The reference: a copy that the thread cuts in two, and shares with another.
void copyWithTwoThreads(char* to, const char* from, size_t bytes) {
  std::thread half([=] { std::memcpy(to, from, bytes / 2); });
  std::memcpy(to + bytes / 2, from + bytes / 2, bytes - bytes / 2);
  half.join();
}

void benchmarkCopies() {
  constexpr int kRounds = 9;
  constexpr size_t kBytes = size_t{64} << 20;
  void* memory = nullptr;
  check(orMalloc(&memory, kBytes));
  std::vector<char> source(kBytes, 1), target(kBytes, 2);
  for (int threads : {1, 2}) {
    check(orSetTransferThreads(threads));
    double up = 1e18, down = 1e18, plain = 1e18;
    for (int round = 0; round < kRounds; ++round) {
      auto start = Clock::now();
      check(orMemcpy(memory, source.data(), kBytes, orMemcpyHostToDevice));
      up = std::min(up, nanosecondsSince(start));
      start = Clock::now();
      check(orMemcpy(target.data(), memory, kBytes, orMemcpyDeviceToHost));
      down = std::min(down, nanosecondsSince(start));
      start = Clock::now();
      if (threads == 1) {
        std::memcpy(target.data(), source.data(), kBytes);
      } else {
        copyWithTwoThreads(target.data(), source.data(), kBytes);
      }
      plain = std::min(plain, nanosecondsSince(start));
    }
    std::printf(
        "64 MiB up and down / memcpy, threads %d  %5.2f %5.2f\n",
        threads,
        up / plain,
        down / plain);
  }
  check(orFree(memory));
}

// Several host threads feed one stream: what arrives must be all that was sent.
bool benchmarkProducers(orStream_t stream) {
  constexpr int kThreads = 4, kEach = 20000;
  const long before = ran.load();
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([stream] {
      for (int launch = 0; launch < kEach; ++launch) {
        check(orLaunchKernel(
            stream, kernel, 1, static_cast<void*>(nullptr), 2.0));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  check(orStreamSynchronize(stream));
  const bool complete = ran.load() - before == long{kThreads} * kEach;
  std::printf(
      "%d threads on one stream (ns)     %9.0f %s\n",
      kThreads,
      nanosecondsSince(start) / (kThreads * kEach),
      complete ? "complete" : "LOST WORK");
  return complete;
}

} // namespace

int main() {
  orStream_t stream = nullptr;
  check(orStreamCreate(&stream));
  benchmarkLaunches(stream);
  benchmarkGraphs(stream);
  benchmarkAllocation();
  benchmarkCopies();
  const bool complete = benchmarkProducers(stream);
  check(orStreamDestroy(stream));
  return complete ? 0 : 1;
}
