#include "executor/RecurrentWorkspace.h"

#include <array>

namespace at::native::openreg {
namespace {

// Where the figures come from: 7 806 nets were run on an NVIDIA H200 (torch 2.11, cuDNN
// 9.19) and each of their allocations was recorded. What is kept follows from the shape
// to the byte. The workspace is what each layer and direction has for its products of
// matrices, a copy of the weights, and whole copies of sequences and states: how many
// depends on the kind, the width, and whether PyTorch copies the weights at each call.
// docs/profiles.md has the error.
constexpr double kPerLayer = 8 << 20;

/// How many copies of sequences of hidden states and of the input, for each direction
/// and for both together, and of the states of a layer and direction.
struct Copies {
  double hidden, hiddenOnce, input, inputOnce, states;
};
/// Of a net with one layer, and of one with more.
using CopiesByLayers = std::array<Copies, 2>;

struct CopiesByWidth {
  size_t mostOfNarrow; // numbers of a hidden state
  CopiesByLayers narrowCopied, narrow, wide; // copied: the weights
};

// By kind.
constexpr std::array<CopiesByWidth, 3> kCopies{
    {{192,
      {{{6, -3, 3, 0, 11}, {6, -3, 3, 0, 13}}},
      {{{6, 13, 3, 0, 8}, {6, 13, 3, 0, 8.5}}},
      {{{9, -4, 0, 1, 11}, {9, -4, 0, 1, 11.5}}}},
     {192,
      {{{4, -1, 3, 0, 5}, {5, -2, 3, 0, 7}}},
      {{{3, 14, 3, 0, 7}, {4, 14, 3, 0, 6}}},
      {{{8, -4, 0, 2, 5}, {8, -4, 0, 2, 6.5}}}},
     {384,
      {{{3, 0, 3, 0, 7}, {6, -3.5, 3, 0, 7}}},
      {{{3, 9, 3, 0, 7}, {4, 9, 3, 0, 6}}},
      {{{6, -2, 0, 2, 7}, {9, -6, 0, 2, 7}}}}}};

// How often the hidden sequence is kept for each layer.
constexpr std::array<size_t, 3> kKept{5, 6, 1};

// cuDNN aligns what it keeps to this.
constexpr size_t kAlignment = 256;

} // namespace

size_t RecurrentShape::workspace() const {
  const CopiesByWidth& row = kCopies[kind];
  const CopiesByLayers& byLayers = hidden > row.mostOfNarrow ? row.wide
      : copiesWeights                                        ? row.narrowCopied
                                                             : row.narrow;
  const Copies& copies = byLayers[layers > 1];
  const auto itemSize = static_cast<double>(c10::elementSize(dtype));
  const auto both = static_cast<double>(directions);
  const double rows = static_cast<double>(steps * batch) * itemSize;
  const double states = static_cast<double>(batch * hidden) * itemSize;
  const double streams = static_cast<double>(layers) * both;
  return static_cast<size_t>(
      kPerLayer * streams + static_cast<double>(weightBytes) +
      rows * static_cast<double>(hidden) *
          (copies.hidden * both + copies.hiddenOnce) +
      rows * static_cast<double>(input) *
          (copies.input * both + copies.inputOnce) +
      streams * states * copies.states);
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
