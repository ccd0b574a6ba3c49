// Pseudo-random numbers that follow from a seed and a count.
#pragma once

#include <cstdint>

namespace openreg {

/// Spreads the bits of a number (splitmix64).
constexpr uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

} // namespace openreg
