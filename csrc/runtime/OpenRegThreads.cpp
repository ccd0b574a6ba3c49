#include "runtime/OpenRegThreads.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>

// Of the OpenMP library that PyTorch brings along.
extern "C" [[gnu::weak]] void omp_set_num_threads(int threads);

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
