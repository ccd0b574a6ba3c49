// What grows with the number of streams, events and allocations. Each figure is
// the best of several rounds; compare figures of one run only.
//
//   openreg_runtime_benchmark [live allocations, default 1000000]
#include "openreg.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

void check(orError_t status) {
  if (status != orSuccess) {
    std::fprintf(
        stderr, "%s: %s\n", orGetErrorName(status), orGetLastErrorDetail());
    std::exit(1);
  }
}

/// Nanoseconds per repetition of `body(i)`, the best of five rounds.
template <class Body>
double measure(int repetitions, Body body) {
  double best = std::numeric_limits<double>::max();
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < repetitions; ++i) {
      body(i);
    }
    const std::chrono::duration<double, std::nano> time = Clock::now() - start;
    best = std::min(best, time.count() / repetitions);
  }
  return best;
}

std::vector<orStream_t> createStreams(int count) {
  std::vector<orStream_t> streams(static_cast<size_t>(count));
  for (orStream_t& stream : streams) {
    check(orStreamCreateWithFlags(&stream, orStreamNonBlocking));
  }
  return streams;
}

void benchmarkStreams() {
  std::puts("launches over several streams, then a synchronisation (ns each)");
  for (int count : {1, 2, 4, 8}) {
    const auto streams = createStreams(count);
    constexpr int kLaunches = 10000;
    const double time = measure(1, [&](int) {
      for (int i = 0; i < kLaunches; ++i) {
        check(orLaunchKernel(streams[static_cast<size_t>(i % count)], [] {}));
      }
      check(orDeviceSynchronize());
    });
    std::printf("  %d streams %29.0f\n", count, time / kLaunches);
    for (orStream_t stream : streams) {
      check(orStreamDestroy(stream));
    }
  }
}

void benchmarkSmallWork() {
  const auto streams = createStreams(1);
  const orLaunchConfig small{"small", orLaunchSmall};
  const double time = measure(
      20000, [&](int) { check(orLaunchKernelEx(&small, streams[0], [] {})); });
  std::printf("launch of small work, idle stream (ns) %5.0f\n", time);
  check(orStreamDestroy(streams[0]));
}

void benchmarkEvents() {
  const auto streams = createStreams(2);
  orEvent_t plain = nullptr, timed = nullptr;
  check(orEventCreateWithFlags(&plain, orEventDisableTiming));
  check(orEventCreateWithFlags(&timed, orEventEnableTiming));
  std::puts("events (ns)");
  std::printf("  record %34.0f\n", measure(20000, [&](int) {
                check(orEventRecord(plain, streams[0]));
              }));
  std::printf("  record with time %24.0f\n", measure(20000, [&](int) {
                check(orEventRecord(timed, streams[0]));
              }));
  std::printf("  query %35.0f\n", measure(20000, [&](int) {
                check(orEventQuery(plain));
              }));
  std::printf(
      "  launch, record, wait in another %9.0f\n", measure(5000, [&](int) {
        check(orLaunchKernel(streams[0], [] {}));
        check(orEventRecord(plain, streams[0]));
        check(orStreamWaitEvent(streams[1], plain, 0));
      }));
  check(orDeviceSynchronize());
  std::printf("  create and destroy %22.0f\n", measure(20000, [&](int) {
                orEvent_t event = nullptr;
                check(orEventCreate(&event));
                check(orEventDestroy(event));
              }));
  check(orEventDestroy(plain));
  check(orEventDestroy(timed));
  for (orStream_t stream : streams) {
    check(orStreamDestroy(stream));
  }
}

void benchmarkAllocations(size_t most) {
  std::puts("among live allocations of a page (ns)");
  std::puts("       live   malloc+free    attributes");
  std::vector<void*> live;
  for (size_t count = 1000; count <= most; count *= 10) {
    while (live.size() < count) {
      void* pointer = nullptr;
      check(orMalloc(&pointer, 4096));
      live.push_back(pointer);
    }
    // Holes all over, so that the choice of one is among many.
    for (size_t i = 0; i < count; i += 16) {
      check(orFree(live[i]));
    }
    const double pair = measure(5000, [](int) {
      void* pointer = nullptr;
      check(orMalloc(&pointer, 4096));
      check(orFree(pointer));
    });
    for (size_t i = 0; i < count; i += 16) {
      check(orMalloc(&live[i], 4096));
    }
    const double attributes = measure(5000, [&](int i) {
      orPointerAttributes result;
      const auto at = static_cast<size_t>(i) * 7919 % live.size();
      check(orPointerGetAttributes(&result, live[at]));
    });
    std::printf("  %9zu %13.0f %13.0f\n", count, pair, attributes);
  }
  for (void* pointer : live) {
    check(orFree(pointer));
  }
}

} // namespace

int main(int argc, char** argv) {
  benchmarkStreams();
  benchmarkSmallWork();
  benchmarkEvents();
  benchmarkAllocations(
      argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000000);
}
