#include "runtime/OpenRegSingleThread.h"

// Of the OpenMP library that PyTorch brings along.
extern "C" [[gnu::weak]] void omp_set_num_threads(int threads);
extern "C" [[gnu::weak]] int omp_get_max_threads();
// Of MKL, if PyTorch was built with it: for the calling thread; returns what was set.
extern "C" [[gnu::weak]] int MKL_Set_Num_Threads_Local(int threads);

namespace c10::openreg {

SingleThread::SingleThread()
    : outer_(omp_get_max_threads ? omp_get_max_threads() : 1) {
  if (outer_ != 1) {
    omp_set_num_threads(1);
    if (MKL_Set_Num_Threads_Local) {
      outerMkl_ = MKL_Set_Num_Threads_Local(1);
    }
  }
}

SingleThread::~SingleThread() {
  if (outer_ != 1) {
    omp_set_num_threads(outer_);
    if (MKL_Set_Num_Threads_Local) {
      MKL_Set_Num_Threads_Local(outerMkl_);
    }
  }
}

} // namespace c10::openreg
