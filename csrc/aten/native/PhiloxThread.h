// One thread of a GPU that takes numbers one by one, and samples that need an unknown
// number of them.
#pragma once

#include "aten/native/PhiloxMath.h"

#include <optional>

namespace at::native::openreg::gpu {

/// What curand has for a thread.
class PhiloxThread {
 public:
  PhiloxThread(c10::openreg::PhiloxPoint point, int64_t thread)
      : point_(point), thread_(static_cast<uint64_t>(thread)) {
    take();
  }

  uint32_t word() {
    if (taken_ == 4) {
      point_.offset += 4;
      take();
    }
    return block_.words[taken_++];
  }

  float uniform() {
    return uniformOf(word());
  }

  float normal() {
    if (normal_) {
      return *std::exchange(normal_, std::nullopt);
    }
    const uint32_t first = word();
    const auto [sine, cosine] = normalsOf(first, word());
    normal_ = cosine;
    return sine;
  }

  double wideNormal() {
    PhiloxBlock block;
    for (uint32_t& one : block.words) {
      one = word();
    }
    return wideNormalsOf(block)[0];
  }

 private:
  void take() {
    block_ = c10::openreg::philox(point_.seed, point_.offset, thread_);
    taken_ = 0;
  }

  c10::openreg::PhiloxPoint point_;
  uint64_t thread_;
  PhiloxBlock block_;
  int taken_;
  std::optional<float> normal_; // the second of a pair
};

/// Numbers with these distributions, as curand and PyTorch's kernels find them.
uint32_t poisson(PhiloxThread& thread, double rate);
template <class T>
T gamma(PhiloxThread& thread, T alpha);
template <class T>
T binomial(PhiloxThread& thread, T count, T prob);

} // namespace at::native::openreg::gpu
