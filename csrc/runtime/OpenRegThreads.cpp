#include "runtime/OpenRegThreads.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>

// Of the OpenMP library that PyTorch brings along.
extern "C" [[gnu::weak]] void omp_set_num_threads(int threads);
// Of MKL, if PyTorch was built with it: for the calling thread; returns what was set.
extern "C" [[gnu::weak]] int MKL_Set_Num_Threads_Local(int threads);

namespace c10::openreg {
namespace {

std::atomic<int> ofCaller{0}; // 0: there was no backward pass

bool isInBackward() {
  return torch::autograd::get_current_graph_task_id() != -1;
}

} // namespace

void useThreads(int threads) {
  // The question makes PyTorch set its default for a thread that is new to it.
  if (at::get_num_threads() != threads && omp_set_num_threads) {
    omp_set_num_threads(threads);
    // MKL keeps what the thread had at first, whatever other threads set later.
    if (MKL_Set_Num_Threads_Local) {
      MKL_Set_Num_Threads_Local(threads);
    }
  }
}

void noteThreadsForBackward() {
  if (!isInBackward()) {
    ofCaller.store(at::get_num_threads(), std::memory_order_relaxed);
  }
}

void useThreadsOfBackward() {
  const int threads = ofCaller.load(std::memory_order_relaxed);
  if (threads != 0 && isInBackward()) {
    useThreads(threads);
  }
}

} // namespace c10::openreg
