// How long the kernels of an operator took so far.
#pragma once

#include <atomic>

namespace at::native::openreg {

// docs:begin kernel-pace
/// How long the kernels of one operator took, compared with a rough estimate. An estimate
/// by bytes is right for a sum of two tensors, and a hundred times too short for an
/// interpolation.
///
/// Threads: any. If two call note() at once, one note may be lost.
class KernelPace {
 public:
  /// The shortest estimate, in microseconds, that tells anything.
  static constexpr double kShortest = 1;

  double expect(double roughly) const {
    return roughly * factor_.load(std::memory_order_relaxed);
  }
  /// `took`: of all its threads together. A kernel that was interrupted took longer: so a
  /// short time counts at once, and a long one in part. Neither may be 0.
  void note(double roughly, double took) {
    const double seen = took / roughly;
    const double known = factor_.load(std::memory_order_relaxed);
    factor_.store(
        seen < known ? seen : known + (seen - known) / 8,
        std::memory_order_relaxed);
  }

 private:
  std::atomic<double> factor_{1};
};
// docs:end kernel-pace

} // namespace at::native::openreg
