// What the words of a Philox block become: as CUDA's functions make it, rounding
// included. Fused where CUDA's compiler fuses.
#pragma once

#include "runtime/OpenRegPhilox.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace at::native::openreg {

using c10::openreg::PhiloxBlock;

inline float fused(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline double fused(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

/// In (0, 1].
inline float uniformOf(uint32_t word) {
  constexpr float kUnit = 0x1p-32f;
  return fused(static_cast<float>(word), kUnit, kUnit / 2);
}
inline double uniformOf(uint32_t first, uint32_t second) {
  constexpr double kUnit = 0x1p-53;
  const uint64_t word = first ^ (static_cast<uint64_t>(second) << 21);
  return fused(static_cast<double>(word), kUnit, kUnit / 2);
}

inline uint64_t wideOf(uint32_t high, uint32_t low) {
  return (static_cast<uint64_t>(high) << 32) | low;
}

/// What numbers of a dtype are computed in.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// How many numbers a block gives.
template <class T>
inline constexpr int kUnroll = std::is_same_v<T, double> ? 2 : 4;

/// All of them in (0, 1].
template <class C>
std::array<C, kUnroll<C>> uniformsOf(const PhiloxBlock& block) {
  const auto& w = block.words;
  if constexpr (std::is_same_v<C, double>) {
    return {uniformOf(w[0], w[1]), uniformOf(w[2], w[3])};
  } else {
    return {uniformOf(w[0]), uniformOf(w[1]), uniformOf(w[2]), uniformOf(w[3])};
  }
}

} // namespace at::native::openreg
