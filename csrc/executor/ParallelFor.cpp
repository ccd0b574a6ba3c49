#include "executor/ParallelFor.h"

#include <ATen/Parallel.h>
#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <exception>
#include <mutex>

// Of the OpenMP library that PyTorch brings along.
extern "C" [[gnu::weak]] int omp_get_thread_num();
extern "C" [[gnu::weak]] int omp_get_num_threads();
extern "C" [[gnu::weak]] void GOMP_parallel(
    void (*body)(void*),
    void* data,
    unsigned threads,
    unsigned flags);

namespace at::native::openreg {
namespace {

struct Loop {
  const int64_t count;
  const c10::function_ref<void(int64_t begin, int64_t end)> work;
  std::mutex lock;
  std::exception_ptr error; // OpenMP's frames pass none on

  void run(int64_t member, int64_t members) {
    const int64_t each = (count + members - 1) / members;
    const int64_t begin = member * each;
    const int64_t end = std::min(count, begin + each);
    if (begin >= end) {
      return;
    }
    try {
      const c10::ParallelGuard inside(true);
      work(begin, end);
    } catch (...) {
      const std::lock_guard guard(lock);
      error = std::current_exception();
    }
  }
};

} // namespace

void parallelFor(
    int64_t count,
    int64_t grain,
    c10::function_ref<void(int64_t begin, int64_t end)> work) {
  const int64_t threads = std::min<int64_t>(
      at::get_num_threads(), count / std::max<int64_t>(grain, 1));
  Loop loop{count, work, {}, {}};
  if (threads > 1 && GOMP_parallel && !at::in_parallel_region()) {
    GOMP_parallel(
        [](void* shared) {
          static_cast<Loop*>(shared)->run(
              omp_get_thread_num(), omp_get_num_threads());
        },
        &loop,
        static_cast<unsigned>(threads),
        0);
  } else {
    loop.run(0, 1);
  }
  if (loop.error) {
    std::rethrow_exception(loop.error);
  }
}

} // namespace at::native::openreg
