// Kernels with one thread.
//
// Threads: an object belongs to one; so does the number of threads.
#pragma once

namespace c10::openreg {

// docs:begin single-thread
/// While it lives, kernels on the calling thread use one thread. So a thread that runs
/// only small kernels never gets its own team of OpenMP threads: with more threads in all
/// teams than processors, every parallel region of the process would be slow.
// docs:end single-thread
class [[nodiscard]] SingleThread {
 public:
  SingleThread();
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  const int outer_; // of OpenMP
  int outerMkl_ = 0;
};

} // namespace c10::openreg
