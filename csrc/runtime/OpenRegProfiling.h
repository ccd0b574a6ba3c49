// Whether a profiler of PyTorch is on, for code that runs with every operator.
#pragma once

#include <atomic>

namespace c10::openreg {

namespace detail {
extern std::atomic<int> profilers;
}

// docs:begin profiling
/// Whether torch.profiler or torch.autograd.profiler traces anything in this process.
/// Ask this before asking PyTorch whether the calling thread is traced: PyTorch's
/// answer takes ten nanoseconds and more, this is one load.
inline bool profiling() noexcept {
  return detail::profilers.load(std::memory_order_relaxed) != 0;
}
// docs:end profiling

/// A profiler that is on, for as long as it lives.
///
/// Threads: any may make and destroy one.
class ProfilerIsOn {
 public:
  ProfilerIsOn() noexcept {
    ++detail::profilers;
  }
  ~ProfilerIsOn() {
    --detail::profilers;
  }
  ProfilerIsOn(const ProfilerIsOn&) = delete;
  ProfilerIsOn& operator=(const ProfilerIsOn&) = delete;
};

} // namespace c10::openreg
