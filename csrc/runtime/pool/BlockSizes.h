// How large the blocks and segments of the block pool are.
#pragma once

#include "runtime/pool/Block.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace c10::openreg {

/// The settings of a pool, and the rules of sizes that follow from them.
class BlockSizes {
 public:
  /// Too large for any device: rounding would overflow.
  static constexpr size_t kTooLarge = SIZE_MAX;

  void set(const PoolConfig& config) {
    config_ = config;
    const auto& divisions = config.roundupPower2Divisions;
    roundsToPowers_ = std::any_of(
        divisions.begin(), divisions.end(), [](size_t n) { return n > 1; });
  }
  const PoolConfig& config() const {
    return config_;
  }

  static bool isSmall(size_t size) {
    return size <= kLargestSmallBlock;
  }
  bool isOversize(size_t size) const {
    return size >= config_.maxSplitSize;
  }

  /// The size of a block for a request.
  size_t blockSize(size_t bytes) const {
    if (bytes > SIZE_MAX - kOwnSegmentRounding) {
      return kTooLarge;
    }
    if (roundsToPowers_) {
      if (const size_t size = roundUpToPart(bytes)) {
        return size;
      }
    }
    return roundUp(bytes, kSmallestBlock);
  }

  /// The size of a new segment for a block.
  size_t segmentSize(size_t size) const {
    if (isSmall(size)) {
      return kSmallSegment;
    }
    const size_t own =
        size == kTooLarge ? kTooLarge : roundUp(size, kOwnSegmentRounding);
    return size < kOwnSegment ? std::max(own, config_.largeSegmentSize) : own;
  }

  /// The largest block that serves a request for `size`: what is oversize is for
  /// oversize requests, and not for much smaller ones.
  size_t largestFor(size_t size) const {
    return isOversize(size) ? size + config_.maxNonSplitRounding - 1
                            : config_.maxSplitSize - 1;
  }

  /// By how much a segment that grows does.
  size_t growth(bool ofSmall) const {
    return ofSmall ? kSmallSegment
                   : roundUp(config_.largeSegmentSize, kOwnSegmentRounding);
  }

  /// Whether `rest` bytes that a block has beyond `size` are worth a block of their
  /// own.
  bool worthSplitting(size_t size, size_t rest, bool fromSmall) const {
    return fromSmall || config_.expandableSegments
        ? rest >= kSmallestBlock
        : rest > kLargestSmallBlock && !isOversize(size);
  }

 private:
  // docs:begin block-sizes
  static constexpr size_t kMiB = 1 << 20;
  static constexpr size_t kLargestSmallBlock = 1 * kMiB;
  static constexpr size_t kSmallSegment = 2 * kMiB;
  static constexpr size_t kOwnSegment =
      10 * kMiB; // from here a segment per block
  static constexpr size_t kOwnSegmentRounding = 2 * kMiB;
  // docs:end block-sizes

  static size_t roundUp(size_t value, size_t unit) {
    return (value + unit - 1) / unit * unit;
  }

  // Rounded up to a part of the interval between two powers of two; 0 if there
  // are no parts, or if they would be smaller than a block.
  size_t roundUpToPart(size_t bytes) const {
    const size_t power = std::bit_floor(bytes);
    const auto& all = config_.roundupPower2Divisions;
    size_t interval = 0;
    while (interval + 1 < all.size() && power > kMiB << interval) {
      ++interval;
    }
    const size_t divisions = all[interval];
    if (divisions <= 1 || bytes <= kSmallestBlock * divisions) {
      return 0;
    }
    const size_t rounded = roundUp(bytes, power / std::bit_floor(divisions));
    return rounded < bytes ? kTooLarge : rounded;
  }

  PoolConfig config_;
  bool roundsToPowers_ = false;
};

} // namespace c10::openreg
