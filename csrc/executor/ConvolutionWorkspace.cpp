#include "executor/ConvolutionWorkspace.h"

#include "executor/ConvolutionTable.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>

namespace at::native::openreg {
namespace {

namespace table = convolution_table;
namespace trees {
#include "executor/ConvolutionTrees.inc"
}
using Answers = std::array<double, table::QuestionCount>;

/// By pass.
using Trees = std::array<table::Tree, 3>;
constexpr Trees kFloatTrees{
    table::Tree(trees::kForward32),
    table::Tree(trees::kInputGradient32),
    table::Tree(trees::kWeightGradient32)};
constexpr Trees kHalfTrees{
    table::Tree(trees::kForward16),
    table::Tree(trees::kInputGradient16),
    table::Tree(trees::kWeightGradient16)};

table::Node leafOf(const table::Tree& tree, const Answers& answers) {
  size_t place = 0;
  while (!tree.isLeaf(place)) {
    const table::Node node = tree.decision(place);
    const bool isAbove = answers[node.question()] > node.limit();
    place = isAbove ? tree.above(place) : table::Tree::below(place);
  }
  constexpr size_t kDigits = 4;
  const size_t leaf = tree.leaf(place);
  return {table::valueOf(trees::kLeaves.substr(leaf * kDigits, kDigits))};
}

double logarithm(int64_t number) {
  return std::log2(static_cast<double>(std::max<int64_t>(number, 1)));
}

int64_t roundUp(int64_t number, int64_t to) {
  return (number + to - 1) / to * to;
}

double alignment(int64_t channels) {
  return channels % 8 == 0 ? 3 : channels % 4 == 0 ? 2 : channels % 2 == 0;
}

int64_t product(IntArrayRef sizes) {
  return c10::multiply_integers(sizes);
}

Answers answersFor(const ConvolutionShape& shape) {
  const auto& context = at::globalContext();
  const int64_t in = shape.inChannels / shape.groups;
  const int64_t out = shape.outChannels / shape.groups;
  const int64_t inPixels = shape.images * shape.inPixels;
  const int64_t outPixels = shape.images * shape.outPixels;
  const auto tiles = [](int64_t rows, int64_t columns, int64_t size) {
    return logarithm(
        roundUp(rows, size) / size * (roundUp(columns, size) / size));
  };
  const int64_t depth = in * shape.kernelSize;
  Answers answers{};
  answers[table::Images] = logarithm(shape.images);
  answers[table::InChannels] = logarithm(in);
  answers[table::OutChannels] = logarithm(out);
  answers[table::KernelSize] = logarithm(shape.kernelSize);
  answers[table::Stride] = static_cast<double>(shape.stride);
  answers[table::InPixels] = logarithm(inPixels);
  answers[table::OutPixels] = logarithm(outPixels);
  answers[table::Depth] = logarithm(depth);
  answers[table::Weights] =
      answers[table::Depth] + logarithm(shape.outChannels);
  answers[table::Products] =
      answers[table::OutPixels] + answers[table::Weights];
  answers[table::InAlignment] = alignment(in);
  answers[table::OutAlignment] = alignment(out);
  answers[table::InNumbers] =
      answers[table::InPixels] + logarithm(shape.inChannels);
  answers[table::OutNumbers] =
      answers[table::OutPixels] + logarithm(shape.outChannels);
  answers[table::Groups] = logarithm(shape.groups);
  answers[table::Tiles] = tiles(outPixels, out, 128);
  answers[table::BFloat] = shape.dtype == kBFloat16;
  answers[table::Deterministic] =
      context.deterministicCuDNN() || context.deterministicAlgorithms();
  answers[table::ChannelsLast] = shape.isChannelsLast;
  answers[table::Dimensions] = static_cast<double>(shape.dimensions);
  answers[table::Width] = logarithm(shape.width);
  answers[table::ImagePixels] = logarithm(shape.inPixels);
  answers[table::Spread] = logarithm(out * shape.kernelSize);
  answers[table::WeightTiles] = tiles(depth, out, 128);
  answers[table::SmallWeightTiles] = tiles(depth, out, 64);
  answers[table::KernelTiles] =
      tiles(in, out, 64) + logarithm(shape.kernelSize);
  answers[table::InTiles] = tiles(inPixels, in, 128);
  for (double& answer : answers) { // as exact as the limits are
    answer = std::floor(answer * 4096 + 0.5) / 4096;
  }
  return answers;
}

/// Bytes of the input, the weight and the output.
struct TensorBytes {
  int64_t in, weight, out;

  int64_t all() const {
    return in + weight + out;
  }
};

/// What the tensors take with channels in multiples of `vector`.
TensorBytes bytesOf(const ConvolutionShape& shape, int64_t vector) {
  const auto itemSize = static_cast<int64_t>(c10::elementSize(shape.dtype));
  const int64_t in = roundUp(shape.inChannels / shape.groups, vector);
  const int64_t out = roundUp(shape.outChannels / shape.groups, vector);
  const int64_t bytes = shape.groups * itemSize;
  return {
      shape.images * in * shape.inPixels * bytes,
      in * out * shape.kernelSize * bytes,
      shape.images * out * shape.outPixels * bytes};
}

// The layout of one channel, or of one pixel, is that of cuDNN's kernels: channels last.
// Padding needs a copy in any case.
TensorBytes changed(const ConvolutionShape& shape, int64_t vector) {
  const int64_t in = shape.inChannels / shape.groups;
  const int64_t out = shape.outChannels / shape.groups;
  const bool padsIn = in % vector != 0;
  const bool padsOut = out % vector != 0;
  const auto turns = [&](int64_t channels, int64_t pixels) {
    return !shape.isChannelsLast && channels > 1 && pixels > 1;
  };
  TensorBytes bytes = bytesOf(shape, vector);
  if (!padsIn && !turns(shape.inChannels, shape.inPixels)) {
    bytes.in = 0;
  }
  if (!padsIn && !padsOut && !turns(in, shape.kernelSize)) {
    bytes.weight = 0;
  }
  if (!padsOut && !turns(shape.outChannels, shape.outPixels)) {
    bytes.out = 0;
  }
  return bytes;
}

int64_t bytesOf(table::Copies copies, const ConvolutionShape& shape) {
  const int64_t vector =
      16 / static_cast<int64_t>(c10::elementSize(shape.dtype));
  const TensorBytes whole = bytesOf(shape, 1);
  const TensorBytes padded = changed(shape, vector);
  switch (copies) {
    case table::PaddedAll:
      return padded.all();
    case table::ChangedAll:
      return changed(shape, 1).all();
    case table::WholeAll:
      return whole.all();
    case table::PaddedInWeight:
      return padded.in + padded.weight;
    case table::WholeInWeight:
      return whole.in + whole.weight;
    case table::WholeWeightOut:
      return whole.weight + whole.out;
    case table::PaddedInOut:
      return padded.in + padded.out;
    case table::WholeInOut:
      return whole.in + whole.out;
    case table::WholeWeight:
      return whole.weight;
    default:
      return 0;
  }
}

} // namespace

ConvolutionShape::ConvolutionShape(
    const Tensor& input,
    const Tensor& weight,
    const Tensor& output,
    SymIntArrayRef strides,
    bool isTransposed,
    const SymInt& groups)
    : images(input.size(0)),
      groups(groups.guard_int(__FILE__, __LINE__)),
      inChannels(input.size(1)),
      outChannels(output.size(1)),
      inPixels(product(input.sizes().slice(2))),
      outPixels(product(output.sizes().slice(2))),
      kernelSize(product(weight.sizes().slice(2))),
      dimensions(input.dim() - 2),
      width((isTransposed ? output : input).size(-1)),
      stride(
          strides.empty() ? 1 : strides.back().guard_int(__FILE__, __LINE__)),
      dtype(input.scalar_type()),
      isChannelsLast(
          input.suggest_memory_format() != MemoryFormat::Contiguous ||
          weight.suggest_memory_format() != MemoryFormat::Contiguous),
      isTransposed(isTransposed) {
  if (isTransposed) {
    std::swap(inChannels, outChannels);
    std::swap(inPixels, outPixels);
  }
}

// PyTorch has kernels of its own for a group per channel, and cuDNN needs no copies for
// numbers that its matrix units do not take.
bool ConvolutionShape::takesWorkspace() const {
  const auto& context = at::globalContext();
  const auto precision =
      context.float32Precision(Float32Backend::CUDA, Float32Op::CONV);
  const bool hasUnits = dtype == kHalf || dtype == kBFloat16 ||
      (dtype == kFloat &&
       (precision == Float32Precision::TF32 ||
        precision == Float32Precision::DEFAULT));
  const bool isDepthwise = groups > 1 && groups == inChannels;
  const bool isEmpty =
      std::min({images, inPixels, outPixels, kernelSize, inChannels}) == 0;
  return hasUnits && !isDepthwise && !isEmpty && context.userEnabledCuDNN();
}

size_t ConvolutionShape::workspace(Pass pass) const {
  const Answers answers = answersFor(*this);
  const Trees& trees = dtype == kFloat ? kFloatTrees : kHalfTrees;
  const table::Node leaf = leafOf(trees[pass], answers);
  const auto itemSize = static_cast<int64_t>(c10::elementSize(dtype));
  const int64_t weights = bytesOf(*this, 16 / itemSize).weight / itemSize;
  const double rest = leaf.hasSums()
      ? leaf.sums() * static_cast<double>(weights) * sizeof(float)
      : leaf.logBytes() > 0 ? std::exp2(leaf.logBytes())
                            : 0;
  return static_cast<size_t>(bytesOf(leaf.copies(), *this)) +
      static_cast<size_t>(rest);
}

size_t ConvolutionShape::forwardWorkspace() const {
  if (!takesWorkspace()) {
    return 0;
  }
  return workspace(isTransposed ? InputGradient : Forward);
}

size_t ConvolutionShape::backwardWorkspace(std::array<bool, 3> wanted) const {
  if (!takesWorkspace()) {
    return 0;
  }
  const auto [input, weight, bias] = wanted;
  const size_t ofInput =
      input ? workspace(isTransposed ? Forward : InputGradient) : 0;
  const size_t ofWeight = weight ? workspace(WeightGradient) : 0;
  // The gradient of the weight does not exist yet when that of the input is computed.
  const auto later = weight
      ? static_cast<size_t>(inChannels / groups * outChannels * kernelSize) *
          c10::elementSize(dtype)
      : 0;
  return std::max(ofInput > later ? ofInput - later : 0, ofWeight);
}

} // namespace at::native::openreg
