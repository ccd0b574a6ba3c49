// How to read the decision trees of ConvolutionTrees.inc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace at::native::openreg::convolution_table {

/// What the trees ask about a convolution. Numbers are logarithms to base 2, except
/// the stride, the alignments (of channels per group: 3 for a multiple of 8, 2 of 4,
/// 1 of 2, or 0), the dimensions and the flags.
enum Question : uint8_t {
  Images,
  InChannels, ///< per group, as OutChannels
  OutChannels,
  KernelSize, ///< numbers of one kernel
  Stride,
  InPixels, ///< of all images, as OutPixels
  OutPixels,
  Depth, ///< products for one number of the output
  Products, ///< all of them
  Weights,
  InAlignment,
  OutAlignment,
  InNumbers,
  OutNumbers,
  Groups,
  Tiles, ///< of 128 pixels by 128 channels of the output
  BFloat, ///< flags
  Deterministic,
  ChannelsLast,
  Dimensions, ///< of an image
  Width, ///< of an image
  ImagePixels, ///< of one image
  Spread, ///< products with one number of the input
  WeightTiles, ///< of 128 by 128 weights of a group
  SmallWeightTiles, ///< of 64 by 64
  KernelTiles, ///< of 64 by 64 channels, for each number of a kernel
  InTiles, ///< of 128 pixels by 128 channels of the input
  QuestionCount
};

/// Which tensors are copied into the workspace: whole, only as far as their layout
/// changes, or moreover with their channels padded to vectors of 16 bytes.
enum Copies : uint8_t {
  None,
  PaddedAll,
  ChangedAll,
  WholeAll,
  PaddedInWeight,
  WholeInWeight,
  WholeWeightOut,
  PaddedInOut,
  WholeInOut,
  WholeWeight
};

/// A decision or, in a table of its own, what a leaf says.
struct Node {
  uint32_t bits;

  Question question() const {
    return static_cast<Question>(bits >> 18);
  }
  double limit() const {
    return number() / 4096;
  }
  Copies copies() const {
    return static_cast<Copies>(bits >> 19);
  }
  /// Whether the rest is so many sums of the padded weight's size, or bytes.
  bool hasSums() const {
    return (bits >> 18 & 1) != 0;
  }
  double sums() const {
    return number() / 16;
  }
  /// The logarithm of the bytes beside the copies; 0: there are none.
  double logBytes() const {
    return number() / 4096;
  }

 private:
  double number() const {
    return bits & 0x3FFFF;
  }
};

/// The number that digits of ConvolutionTrees.inc write.
inline uint32_t valueOf(std::string_view digits) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint32_t value = 0;
  for (const char digit : digits) {
    value = value << 6 | static_cast<uint32_t>(kDigits.find(digit));
  }
  return value;
}

/// A tree in the digits of ConvolutionTrees.inc: a place is that of a digit.
class Tree {
 public:
  explicit constexpr Tree(std::string_view digits) : digits_(digits) {}

  bool isLeaf(size_t place) const {
    return isLeafDigit(digits_[place]);
  }
  /// What a leaf says, in the table of all.
  size_t leaf(size_t place) const {
    return valueOf(digits_.substr(place, kLeafDigits)) - kLeafBit;
  }
  Node decision(size_t place) const {
    return {valueOf(digits_.substr(place, kDecisionDigits))};
  }
  /// Where the answers up to the limit go on.
  static size_t below(size_t place) {
    return place + kDecisionDigits;
  }
  /// Where the other answers go on: after all of that.
  size_t above(size_t place) const {
    place = below(place);
    for (int open = 1; open != 0;) {
      const bool ends = isLeaf(place);
      open += ends ? -1 : 1;
      place += ends ? kLeafDigits : kDecisionDigits;
    }
    return place;
  }

 private:
  static constexpr size_t kLeafDigits = 2, kDecisionDigits = 4;
  static constexpr uint32_t kLeafBit = 1 << 11;

  static bool isLeafDigit(char digit) {
    return digit >= 'g' || digit < 'A'; // values from 32 on
  }

  std::string_view digits_;
};

} // namespace at::native::openreg::convolution_table
