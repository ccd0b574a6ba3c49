// A GPU's functions of floating-point numbers, as far as random numbers need them: bit
// for bit in 32 bits, but for the quotient in a tangent. In 64 bits they are the host's,
// which may differ in the last bit.
#pragma once

#include "aten/native/PhiloxNumbers.h"
#include "aten/native/PhiloxTables.h"

#include <bit>
#include <numbers>
#include <utility>

namespace at::native::openreg::gpu {

// --- in code ---

/// CUDA's logf() of a positive number: bit for bit.
inline float log(float x) {
  constexpr float kCoefficients[] = {
      std::bit_cast<float>(0x3E1039F6),
      std::bit_cast<float>(0xBDF8CDCC),
      std::bit_cast<float>(0x3E0F2955),
      std::bit_cast<float>(0xBE2AD8B9),
      std::bit_cast<float>(0x3E4CED0B),
      std::bit_cast<float>(0xBE7FFF22),
      std::bit_cast<float>(0x3EAAAA78),
      -0.5f};
  // x is (1 + rest) * 2^exponent, with a rest between -1/3 and 1/3.
  const auto bits = std::bit_cast<int32_t>(x);
  const int32_t scaled = (bits - 0x3F2AAAAB) & ~0x7FFFFF;
  const float exponent = static_cast<float>(scaled) * 0x1p-23f;
  const float rest = std::bit_cast<float>(bits - scaled) - 1.0f;
  float sum = std::bit_cast<float>(0xBE055027);
#pragma GCC unroll 8 // so that a loop around it becomes vectors
  for (const float coefficient : kCoefficients) {
    sum = fused(sum, rest, coefficient);
  }
  const float small = fused(rest * sum, rest, rest);
  return fused(exponent, std::numbers::ln2_v<float>, small);
}
inline double log(double x) {
  return std::log(x);
}

// --- in hardware ---

/// The piece of a function, of 64, that a place of 23 bits is in, and its value there.
/// Exact: no number has more than 53 bits.
inline double interpolate(const Piece (&pieces)[64], int32_t place) {
  constexpr int kWithin = 17; // bits
  const Piece& piece = pieces[place >> kWithin];
  const int32_t x = place & ((1 << kWithin) - 1);
  // x * x / 2^19, without the products of bits that stand below.
  int32_t square = 0;
#pragma GCC unroll 7
  for (int bit = 10; bit < kWithin; ++bit) {
    const int32_t products =
        ((x & ((1 << bit) - 1)) >> (18 - bit)) + (1 << (2 * bit - 19));
    square += products & -((x >> bit) & 1);
  }
  return piece.value * 0x1p12 + static_cast<double>(piece.slope) * x +
      static_cast<double>(piece.curvature) * square;
}

/// Towards zero.
inline float truncated(double value) {
  constexpr uint64_t kDropped = (uint64_t{1} << 29) - 1;
  return static_cast<float>(
      std::bit_cast<double>(std::bit_cast<uint64_t>(value) & ~kDropped));
}

/// Of a positive normal number.
inline float log2InHardware(float x) {
  constexpr double kBias = 837;
  const auto bits = std::bit_cast<uint32_t>(x);
  const int exponent = static_cast<int>(bits >> 23) - 127;
  const double value = exponent * 0x1p38 +
      interpolate(kLog2, static_cast<int32_t>(bits & 0x7FFFFF)) + kBias;
  // A negative number is negated bit by bit.
  const double size = std::floor((value < 0 ? -value - 1 : value) / 4);
  const float log = truncated(size * 0x1p-36);
  return x == 1 ? 0 : value < 0 ? -log : log;
}

inline float exp2InHardware(float x) {
  constexpr double kBias = 2018;
  const float size = std::fmin(std::fabs(x), 128.0f);
  const auto steps = static_cast<int32_t>(size * 0x1p23f);
  const int32_t place = x < 0 ? ~steps : steps;
  const double fraction = interpolate(kExp2, place & 0x7FFFFF) + kBias;
  const int exponent = place >> 23;
  // What is too small becomes zero, what is too large infinite.
  const auto power =
      std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023 - 38) << 52);
  return exponent < -126 ? 0 : static_cast<float>(truncated(fraction) * power);
}

/// At which step of a turn an angle is. The hardware has 2^25 of them.
inline int32_t turnStep(float angle) {
  constexpr float kTurn = 0x1.45F306p-3f; // 1 / (2 pi)
  const float turns = angle * kTurn;
  // The product is to be rounded towards zero: one less if it was rounded up.
  const int32_t less = fused(angle, kTurn, -turns) < 0 ? 1 : 0;
  return static_cast<int32_t>(
      std::bit_cast<float>(std::bit_cast<int32_t>(turns) - less) * 0x1p25f);
}

/// The sine of an angle in [0, 2 pi], if `quarters` is 0; if it is 1, the cosine.
inline float sineInHardware(float angle, int32_t quarters) {
  constexpr int32_t kQuarter = 1 << 23;
  const int32_t step = turnStep(angle) + quarters * kQuarter;
  const int32_t quarter = step >> 23;
  // Backwards in each second quarter.
  const int32_t place = (step ^ -(quarter & 1)) & (kQuarter - 1);
  const float value = truncated(0x1p-37 * interpolate(kSine, place));
  return (quarter & 2) != 0 ? -value : value;
}

// --- approximations that CUDA makes of these ---

inline float fastLog(float x) {
  return log2InHardware(x) * std::numbers::ln2_v<float>;
}
inline double fastLog(double x) {
  return std::log(x);
}
inline float fastExp(float x) {
  return exp2InHardware(x * std::numbers::log2e_v<float>);
}
inline double fastExp(double x) {
  return std::exp(x);
}
inline float fastTan(float x) {
  const float size = std::fabs(x);
  const float value = sineInHardware(size, 0) / sineInHardware(size, 1);
  return std::copysign(value, x);
}
inline double fastTan(double x) {
  return std::tan(x);
}

// --- normal numbers ---

inline float normalSize(uint32_t word) {
  return std::sqrt(-2.0f * log(uniformOf(word)));
}
inline float normalAngle(uint32_t word) {
  constexpr float kUnit = 0x1p-32f * (2 * std::numbers::pi_v<float>);
  return fused(static_cast<float>(word), kUnit, kUnit / 2);
}

/// PhiloxNormals.h has the same for many pairs.
inline std::pair<float, float> normalsOf(uint32_t first, uint32_t second) {
  const float size = normalSize(first), angle = normalAngle(second);
  return {sineInHardware(angle, 0) * size, sineInHardware(angle, 1) * size};
}

/// Both of a block, in 64 bits.
inline std::array<double, 2> wideNormalsOf(const PhiloxBlock& block) {
  const auto& w = block.words;
  const double size = std::sqrt(-2.0 * std::log(uniformOf(w[0], w[1])));
  // The second is twice as large: an angle in units of pi. Of that the nearest half is
  // taken away, so that the multiplication loses little.
  const double angle = 2 * uniformOf(w[2], w[3]);
  const double halves = std::round(2 * angle);
  const double rest = angle - halves / 2;
  const double turned = std::numbers::pi * rest;
  const double lost =
      fused(std::numbers::pi, rest, -turned) + 0x1.1A62633145C07p-53 * rest;
  const double sine = fused(lost, std::cos(turned), std::sin(turned));
  const double cosine = fused(-lost, std::sin(turned), std::cos(turned));
  switch (static_cast<int>(halves) % 4) {
    case 0:
      return {sine * size, cosine * size};
    case 1:
      return {cosine * size, -sine * size};
    case 2:
      return {-sine * size, -cosine * size};
    default:
      return {-cosine * size, sine * size};
  }
}

} // namespace at::native::openreg::gpu
