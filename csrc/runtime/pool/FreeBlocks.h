// The free blocks of the block pool, by size.
#pragma once

#include "runtime/pool/Block.h"
#include "runtime/pool/PoolCounters.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace c10::openreg {

struct PoolArena;

// docs:begin free-blocks
/// The free blocks of one stream and kind, by size and then by address.
///
/// Sizes fall into classes: a class for each size up to 64 units, then 32
/// classes between a power of two and the next. A bitmap tells which classes
/// have blocks, so the next one is found in two steps. Within a class the
/// blocks form a treap, a search tree that is balanced because its upper blocks
/// are those with the larger hash of the address. The links are in the blocks:
/// nothing here takes memory.
// docs:end free-blocks
class FreeBlocks {
 public:
  FreeBlocks(PoolArena& inArena, void* ofStream, PoolCounter::Kind ofKind)
      : arena(inArena), stream(ofStream), kind(ofKind) {}
  FreeBlocks(const FreeBlocks&) = delete;
  FreeBlocks& operator=(const FreeBlocks&) = delete;

  PoolArena& arena;
  void* const stream; // whose work may reuse the blocks unasked
  const PoolCounter::Kind kind;
  size_t segments = 0; // that have their blocks here

  void insert(PoolBlock* block) {
    const size_t at = classOf(block->size);
    block->sizeClass = static_cast<uint16_t>(at);
    if (trees_[at]) {
      insertIntoTree(&trees_[at], block);
      return;
    }
    trees_[at] = block;
    block->left = block->right = nullptr;
    used_[at / 64] |= uint64_t{1} << at % 64;
    usedWords_ |= uint64_t{1} << at / 64;
  }

  void remove(PoolBlock* block) {
    removeFrom(block->sizeClass, block);
  }

  /// Takes out the smallest of at least `size`, and of equal ones the lowest in
  /// memory; nullptr if there is none or if it is larger than `most`.
  PoolBlock* take(size_t size, size_t most) {
    size_t at = classOf(size);
    PoolBlock* found = smallestIn(trees_[at], size);
    if (!found) {
      at = nextClass(at);
      found = smallestIn(trees_[at], size);
    }
    if (!found || found->size > most) {
      return nullptr;
    }
    removeFrom(at, found);
    return found;
  }

  /// The same where some blocks belong to segments that grow. As on CUDA such a block
  /// counts as large as it can become, so the next larger one may be the better fit.
  /// Without `usesGrowing` blocks of such segments are passed over.
  PoolBlock* takeBesideGrowing(size_t size, size_t most, bool usesGrowing);

 private:
  static constexpr size_t kBits = 5; // of a size that its class tells
  static constexpr size_t kClasses = (64 - 9 - kBits + 1) << kBits;
  static constexpr size_t kWords = (kClasses + 63) / 64;

  static size_t classOf(size_t size) {
    const size_t units = size / kSmallestBlock;
    const auto width = std::bit_width(units | size_t{1} << kBits);
    const auto shift = static_cast<size_t>(width) - kBits - 1;
    return (shift << kBits) + (units >> shift);
  }

  // The next class that has blocks, or 0, which never has any.
  size_t nextClass(size_t at) const {
    size_t word = at / 64; // first in the same word of the bitmap, then beyond
    uint64_t bits = used_[word] & (~uint64_t{1} << at % 64);
    if (bits == 0) {
      const uint64_t words = usedWords_ & (~uint64_t{1} << word);
      if (words == 0) {
        return 0;
      }
      word = static_cast<size_t>(std::countr_zero(words));
      bits = used_[word];
    }
    return word * 64 + static_cast<size_t>(std::countr_zero(bits));
  }

  void removeFrom(size_t at, PoolBlock* block) {
    if (trees_[at] != block || block->left || block->right) {
      removeFromTree(&trees_[at], block);
      return;
    }
    trees_[at] = nullptr;
    used_[at / 64] &= ~(uint64_t{1} << at % 64);
    if (used_[at / 64] == 0) {
      usedWords_ &= ~(uint64_t{1} << at / 64);
    }
  }

  static void insertIntoTree(PoolBlock** tree, PoolBlock* block);
  static void removeFromTree(PoolBlock** tree, PoolBlock* block);
  static PoolBlock* smallestIn(PoolBlock* tree, size_t size) {
    PoolBlock* found = nullptr;
    while (tree) {
      if (tree->size >= size) {
        found = tree;
        tree = tree->left;
      } else {
        tree = tree->right;
      }
    }
    return found;
  }

  uint64_t usedWords_ = 0; // words of the bitmap that are not 0
  std::array<uint64_t, kWords> used_{};
  std::array<PoolBlock*, kClasses> trees_{};
};

} // namespace c10::openreg
