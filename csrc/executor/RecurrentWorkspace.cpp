#include "executor/RecurrentWorkspace.h"

#include <array>

namespace at::native::openreg {
namespace {

// Where the figures come from: 22 000 random nets were run on an NVIDIA H200 (torch
// 2.11, cuDNN 9.19) and each of their allocations was recorded. What is kept follows
// from the shape to the byte. The workspace is what each layer and direction has for
// its products of matrices, a copy of the weights and some copies of sequences and
// states, whose numbers were fitted on two thirds of the nets; docs/memory.md has the
// error on the others.
constexpr double kPerLayer = 8 << 20;

/// How many copies of the hidden sequence, the input and the states of all layers, for
/// one direction.
struct Copies {
  double hidden, input, states;
};
struct CopiesByWidth {
  size_t upTo; // numbers of a hidden state
  Copies narrow, wide;
};

// By kind, for float32, float16 and bfloat16.
constexpr std::array<std::array<CopiesByWidth, 3>, 3> kCopies{
    {{{{128, {15.4, 2.4, 13.4}, {6, 0.8, 10}},
       {128, {15.7, 2.4, 10.2}, {5.6, 1.3, 11.5}},
       {128, {4.9, 2.4, 11.6}, {5.8, 1.1, 10.6}}}},
     {{{128, {13.7, 2.9, 8.3}, {4.9, 1.3, 6.5}},
       {128, {14.1, 2.8, 4.6}, {4.7, 1.6, 7.1}},
       {128, {3.7, 2.7, 6.2}, {4.9, 1.4, 5.7}}}},
     {{{256, {10.2, 2.9, 9.3}, {4.4, 1.5, 6.7}},
       {256, {10.2, 2.7, 10.2}, {4.3, 2, 7}},
       {256, {3.6, 2.6, 7.4}, {4, 1.9, 9.3}}}}}};

// How often the hidden sequence is kept for each layer.
constexpr std::array<size_t, 3> kKept{5, 6, 1};

// cuDNN aligns what it keeps to this.
constexpr size_t kAlignment = 256;

} // namespace

size_t RecurrentShape::workspace() const {
  const size_t precision = dtype == c10::kFloat ? 0
      : dtype == c10::kHalf                     ? 1
                                                : 2;
  const CopiesByWidth& row = kCopies[kind][precision];
  const Copies& copies = hidden <= row.upTo ? row.narrow : row.wide;
  const auto itemSize = static_cast<double>(c10::elementSize(dtype));
  const auto streams = static_cast<double>(layers * directions);
  const auto rows = static_cast<double>(directions * steps * batch) * itemSize;
  const double states =
      streams * static_cast<double>(batch * hidden) * itemSize;
  return static_cast<size_t>(
      kPerLayer * streams + static_cast<double>(weightBytes) +
      rows * copies.hidden * static_cast<double>(hidden) +
      rows * copies.input * static_cast<double>(input) +
      states * copies.states);
}

size_t RecurrentShape::reserve() const {
  const size_t numbers = steps * batch * hidden;
  const size_t itemSize = c10::elementSize(dtype);
  const size_t between = (layers - 1) * directions;
  size_t bytes = (layers * directions * kKept[kind] + between) * numbers;
  if (projected != 0) {
    bytes += layers * directions * (numbers + steps * batch * projected);
  }
  bytes *= itemSize;
  if (dropsOut) {
    bytes += between * directions * (numbers / 8); // a bit for each number
  }
  return bytes + kAlignment;
}

} // namespace at::native::openreg
