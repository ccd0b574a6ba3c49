// How to read the decision trees of ConvolutionTrees.inc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace at::native::openreg::convolution_table {

/// What the trees ask about a convolution. Numbers are logarithms to base 2, but for
/// the stride, the alignments (of channels per group: 3 for a multiple of 8, 2 of 4,
/// 1 of 2, or 0), the dimensions and the flags.
enum Question : uint8_t {
  Images = 1,
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
  Width, ///< of an image, as the call has it
  QuestionCount
};

/// Which tensors are copied into the workspace, as they are or with their channels
/// padded to whole vectors of 16 bytes.
enum Copies : uint8_t {
  None,
  InWeight,
  InOut,
  WeightOut,
  All,
  PaddedInWeight,
  PaddedInOut,
  PaddedWeightOut,
  PaddedAll,
  Weight,
  In,
  Out
};

struct Node {
  uint32_t bits;

  bool isLeaf() const {
    return (bits >> 23) != 0;
  }
  Question question() const {
    return static_cast<Question>(bits >> 18);
  }
  double limit() const {
    return number() / 4096;
  }
  Copies copies() const {
    return static_cast<Copies>(bits >> 19 & 15);
  }
  /// Whether the rest is so many sums of a weight's size, or bytes.
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

/// A tree in the digits of ConvolutionTrees.inc.
class Tree {
 public:
  explicit constexpr Tree(std::string_view digits) : digits_(digits) {}

  Node operator[](size_t index) const {
    uint32_t bits = 0;
    for (const char digit : digits_.substr(index * 4, 4)) {
      bits = bits << 6 | valueOf(digit);
    }
    return {bits};
  }

  /// The node after a subtree.
  size_t after(size_t index) const {
    for (int open = 1; open != 0; ++index) {
      const char digit = digits_[index * 4];
      open += digit >= 'g' || digit < 'A' ? -1 : 1; // values from 32 on: leaves
    }
    return index;
  }

 private:
  static uint32_t valueOf(char digit) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return static_cast<uint32_t>(kDigits.find(digit));
  }

  std::string_view digits_;
};

} // namespace at::native::openreg::convolution_table
