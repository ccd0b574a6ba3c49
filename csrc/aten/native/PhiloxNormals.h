// Normal numbers of neighbouring threads: bit for bit normalsOf() of each pair of words, in
// loops that become vectors.
#pragma once

#include "aten/native/PhiloxDraws.h"
#include "aten/native/PhiloxMath.h"

namespace at::native::openreg::gpu {

/// A piece in 8 bytes, so that few vectors hold those of many threads.
struct PackedPiece {
  int32_t value;
  int32_t rates; ///< the curvature, and a slope of 16 bits
};
constexpr PackedPiece packed(const Piece& piece) {
  return {piece.value, piece.curvature * 0x10000 + piece.slope};
}

/// For a place in a quarter of a turn. The cosine is a sine from the quarter's end.
struct TurnPieces {
  PackedPiece sine, cosine;
};

template <size_t... index>
constexpr auto turnPieces(std::index_sequence<index...>) {
  return std::array{
      TurnPieces{packed(kSine[index]), packed(kSine[63 - index])}...};
}
inline constexpr auto kTurn = turnPieces(std::make_index_sequence<64>());

/// interpolate() in units of 2^37, truncated, in 32 bits. `square` is what squares() says.
inline float sineIn(const PackedPiece& piece, uint32_t x, uint32_t square) {
  const uint32_t slope = static_cast<uint32_t>(piece.rates) & 0xFFFF;
  const auto curvature = static_cast<uint32_t>(piece.rates >> 16);
  const uint32_t rest = slope * x + curvature * square;
  // The 24 bits of a number: all of them if there is a 25th, else some of the rest.
  const uint32_t whole = static_cast<uint32_t>(piece.value) + (rest >> 12);
  const auto high =
      static_cast<float>(static_cast<int32_t>(whole & ~(whole >> 24)));
  const auto low =
      static_cast<float>(static_cast<int32_t>(rest & 0xFFF)) * 0x1p-12f;
  const float sum = high + low;
  const int32_t less = sum - high > low ? 1 : 0; // it was rounded up
  return std::bit_cast<float>(std::bit_cast<int32_t>(sum) - less) * 0x1p-25f;
}

/// x * x / 2^19 of numbers of 17 bits, without the products of bits that stand below: as
/// in interpolate(). Those of the upper 7 bits with each other all count.
template <size_t count>
void squares(
    const uint16_t (&upper)[count],
    const uint16_t (&lower)[count],
    uint16_t (&to)[count]) {
  for (size_t i = 0; i < count; ++i) {
    auto sum = static_cast<uint16_t>(2 * upper[i] * upper[i]);
#pragma GCC unroll 7
    for (int bit = 0; bit < 7; ++bit) {
      const int product = (lower[i] >> (8 - bit)) & -((upper[i] >> bit) & 1);
      sum = static_cast<uint16_t>(sum + product);
    }
    to[i] = sum;
  }
}

/// The normal numbers of a pair of words of each thread.
inline void normalsOfPairs(
    const uint32_t* first,
    const uint32_t* second,
    float* sines,
    float* cosines) {
  constexpr int kThreads = DrawBatch::kThreads;
  constexpr uint32_t kPlaces = (1 << 23) - 1; // in a quarter
  constexpr uint32_t kWithin = (1 << 17) - 1; // in a piece
  uint32_t quarters[kThreads], places[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    const auto step = static_cast<uint32_t>(turnStep(normalAngle(second[i])));
    quarters[i] = step >> 23;
    // Backwards in each second quarter.
    places[i] = (step ^ -(quarters[i] & 1)) & kPlaces;
  }
  uint16_t upper[2 * kThreads], lower[2 * kThreads], square[2 * kThreads];
  for (int i = 0; i < kThreads; ++i) {
    upper[i] = static_cast<uint16_t>((places[i] >> 10) & 0x7F);
    lower[i] = static_cast<uint16_t>(places[i] & 0x3FF);
  }
  for (int i = 0; i < kThreads; ++i) {
    upper[kThreads + i] = upper[i] ^ 0x7F;
    lower[kThreads + i] = lower[i] ^ 0x3FF;
  }
  squares(upper, lower, square);
  TurnPieces pieces[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    pieces[i] = kTurn[places[i] >> 17];
  }
  const auto withSign = [](float size, uint32_t quarter) {
    return std::bit_cast<float>(
        std::bit_cast<uint32_t>(size) ^ ((quarter & 2) << 30));
  };
  for (int i = 0; i < kThreads; ++i) {
    const uint32_t x = places[i] & kWithin;
    const float sine = sineIn(pieces[i].sine, x, square[i]);
    const float cosine =
        sineIn(pieces[i].cosine, x ^ kWithin, square[kThreads + i]);
    const float size = normalSize(first[i]);
    sines[i] = withSign(sine, quarters[i]) * size;
    cosines[i] = withSign(cosine, quarters[i] + 1) * size;
  }
}

} // namespace at::native::openreg::gpu
