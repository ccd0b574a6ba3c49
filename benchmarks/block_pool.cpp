// What a hit in the block pool costs: nanoseconds for allocate() and free().
//
// Stand-alone, without torch:
//   g++ -std=c++20 -O2 -Icsrc benchmarks/block_pool.cpp
//       csrc/runtime/pool/*.cpp -lpthread -o block_pool && ./block_pool
#include "runtime/pool/BlockPool.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

using c10::openreg::BlockDevice;
using c10::openreg::BlockPool;

namespace {

constexpr size_t kKiB = 1 << 10, kMiB = 1 << 20;

/// Hands out addresses; nothing is there.
class NoDevice final : public BlockDevice {
 public:
  void* mapSegment(size_t bytes, Stream /*stream*/) override {
    char* segment = next_;
    next_ += bytes;
    return segment;
  }
  void unmapSegment(void* /*segment*/) override {}
  Event record(Stream /*stream*/) override {
    return this;
  }
  bool finished(Event /*event*/) override {
    return true;
  }
  void wait(Event /*event*/) override {}
  void destroy(Event /*event*/) override {}

 private:
  char* next_ = reinterpret_cast<char*>(size_t{1} << 40);
};

int streams[16];

/// The best of several rounds of `pairs` calls, in nanoseconds for each.
template <class Work>
double best(int pairs, Work work) {
  double least = 1e30;
  for (int round = 0; round < 7; ++round) {
    const auto start = std::chrono::steady_clock::now();
    work(pairs);
    const std::chrono::duration<double, std::nano> taken =
        std::chrono::steady_clock::now() - start;
    least = std::min(least, taken.count() / pairs);
  }
  return least;
}

void pairsOf(BlockPool& pool, size_t bytes, int pairs, void* stream) {
  for (int i = 0; i < pairs; ++i) {
    pool.free(pool.allocate(bytes, stream));
  }
}

/// A window of live blocks of sizes a training step has.
void mixed(BlockPool& pool, int pairs, void* stream) {
  constexpr size_t kSizes[] = {
      512, 4 * kKiB, 1000, 64 * kKiB, 2 * kMiB, 256, 300 * kKiB, 3 * kMiB};
  void* live[16] = {};
  for (int i = 0; i < pairs; ++i) {
    void*& slot = live[i * 7 % 16];
    if (slot) {
      pool.free(slot);
    }
    slot = pool.allocate(kSizes[i % 8], stream);
  }
  for (void* pointer : live) {
    if (pointer) {
      pool.free(pointer);
    }
  }
}

double inThreads(int count, bool sameStream) {
  NoDevice device;
  BlockPool pool(device);
  const int pairs = 1'000'000 / count;
  return best(pairs * count, [&](int) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back(
          [&pool, pairs, stream = &streams[sameStream ? 0 : i]] {
            pairsOf(pool, 512, pairs, stream);
          });
    }
    for (auto& thread : threads) {
      thread.join();
    }
  });
}

/// A hit among many live and free blocks.
double amongMany(size_t count) {
  NoDevice device;
  BlockPool pool(device);
  std::vector<void*> live;
  for (size_t i = 0; i < count; ++i) {
    live.push_back(pool.allocate(512 * (1 + i * 2654435761 % 64), streams));
  }
  for (size_t i = 0; i < count; i += 2) {
    pool.free(live[i]);
  }
  return best(1'000'000, [&](int n) { pairsOf(pool, 4096, n, streams); });
}

double oneSize(size_t bytes) {
  NoDevice device;
  BlockPool pool(device);
  return best(1'000'000, [&](int n) { pairsOf(pool, bytes, n, streams); });
}

double mixedSizes() {
  NoDevice device;
  BlockPool pool(device);
  return best(1'000'000, [&](int n) { mixed(pool, n, streams); });
}

} // namespace

int main() {
  std::printf("512 B                      %6.1f ns\n", oneSize(512));
  std::printf("64 KiB                     %6.1f ns\n", oneSize(64 * kKiB));
  std::printf("2 MiB                      %6.1f ns\n", oneSize(2 * kMiB));
  std::printf("mixed sizes                %6.1f ns\n", mixedSizes());
  std::printf("4 KiB among 100 000 blocks %6.1f ns\n", amongMany(100'000));
  std::printf("2 threads, a stream each   %6.1f ns\n", inThreads(2, false));
  std::printf("2 threads, one stream      %6.1f ns\n", inThreads(2, true));
  std::printf("16 threads, a stream each  %6.1f ns\n", inThreads(16, false));
}
