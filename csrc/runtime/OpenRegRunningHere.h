// Kernels that run on the thread that launched them, and may allocate.
#pragma once

#include <openreg.h>

namespace c10::openreg {

// docs:begin running-here
/// While it lives, the calling thread runs a kernel in `stream`, or is about to. Such a
/// kernel uses at once what it allocates. But memory of the stream that another thread
/// frees meanwhile may still be read by work that is queued behind the kernel. So the
/// allocator must not hand that memory out before the work has run.
///
/// Threads: an object belongs to one; runsElsewhere() may be called by any.
// docs:end running-here
class [[nodiscard]] RunningHere {
 public:
  explicit RunningHere(orStream_t stream);
  ~RunningHere();
  RunningHere(const RunningHere&) = delete;
  RunningHere& operator=(const RunningHere&) = delete;

 private:
  bool isFirst_ = false; // of the thread
  bool isOdd_ = false;
};

/// Whether another thread than the calling one runs such a kernel in `stream`.
bool runsElsewhere(orStream_t stream);

} // namespace c10::openreg
