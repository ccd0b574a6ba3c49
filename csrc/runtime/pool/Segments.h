// The segments of the block pool and the blocks they are cut into.
#pragma once

#include "runtime/pool/Arenas.h"
#include "runtime/pool/BlockTable.h"

#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace c10::openreg {

/// Memory of the device in which each byte belongs to one block. A free block has
/// no free neighbours, and the first block of a segment is always the same. The
/// pool's lock guards it.
class Segments {
 public:
  explicit Segments(PoolCounters& counters) : counters_(counters) {}
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  /// A new segment: one block, in no list yet.
  PoolBlock* add(
      void* pointer,
      size_t bytes,
      FreeBlocks& home,
      const PoolContext& context);

  /// A new segment that grows by whole units: one block without memory.
  PoolBlock* addGrowing(
      void* pointer,
      size_t bytes,
      size_t unit,
      FreeBlocks& home,
      const PoolContext& context);

  /// The first block of a growing segment of `home` from which on `size` bytes are free
  /// or without memory, in that order; nullptr if there is none.
  PoolBlock* findRoom(const FreeBlocks& home, size_t size) const;

  /// Notes that the first `bytes` of a block without memory have memory now. Returns
  /// the free block, in no list, that they are part of.
  PoolBlock* gainMemory(PoolBlock* block, size_t bytes);

  /// Free blocks of growing segments whose home is accepted.
  template <class Accept>
  std::vector<PoolBlock*> freeInGrowing(Accept accept) const {
    std::vector<PoolBlock*> found;
    for (const auto& [pointer, segment] : segments_) {
      if (!segment.first->grows || !accept(*segment.first->home)) {
        continue;
      }
      for (PoolBlock* block = segment.first; block; block = block->after) {
        if (block->state == PoolBlock::Free) {
          found.push_back(block);
        }
      }
    }
    return found;
  }

  /// By how many bytes the segment of a block grows.
  size_t unitOf(const PoolBlock* block) const {
    return segmentOf(block)->second.unit;
  }

  /// Cuts the whole units that a free block covers out of it, as one block that is
  /// Leaving; nullptr if there are none.
  PoolBlock* takeUnits(PoolBlock* block);

  /// Notes that a Leaving block has no memory any more. Returns it, joined with
  /// neighbours of its kind.
  PoolBlock* loseMemory(PoolBlock* block);

  /// Takes a segment that is one block out. Returns the context it was added with.
  PoolContext remove(PoolBlock* block);

  /// Allocates `size` bytes of a block that is in no list any more. With `splits`, the
  /// rest becomes a free block after it.
  [[gnu::always_inline]] void cut(PoolBlock* block, size_t size, bool splits) {
    const auto kind = block->home->kind;
    const auto rest = static_cast<int64_t>(block->size - size);
    const bool wasSplit = !block->isWholeSegment();
    if (splits) {
      insertFree(splitOff(block, size));
    }
    const auto bytes = static_cast<int64_t>(block->size);
    if (block->grows) [[unlikely]] {
      // Their parts do not count as split.
    } else if (wasSplit) {
      counters_.inactiveSplitBytes.subtract(kind, bytes);
      if (!splits) {
        counters_.inactiveSplit.subtract(kind, 1);
      }
    } else if (splits) {
      counters_.inactiveSplitBytes.add(kind, rest);
      counters_.inactiveSplit.add(kind, 1);
    }
    block->state = PoolBlock::Allocated;
    if (!block->listed) {
      table_.insert(block);
      block->listed = true;
    }
  }

  /// Frees a block and joins it with its free neighbours.
  [[gnu::always_inline]] void merge(PoolBlock* block) {
    const auto kind = block->home->kind;
    int64_t splits = 0, splitBytes = 0;
    const auto takeNeighbour = [&](PoolBlock* neighbour) {
      if (!neighbour || neighbour->state != PoolBlock::Free) {
        return false;
      }
      neighbour->home->remove(neighbour);
      --splits;
      splitBytes -= static_cast<int64_t>(neighbour->size);
      return true;
    };
    block->state = PoolBlock::Free;
    if (takeNeighbour(block->before)) {
      block = join(block->before, block);
    }
    if (takeNeighbour(block->after)) {
      block = join(block, block->after);
    }
    if (!block->isWholeSegment()) {
      ++splits;
      splitBytes += static_cast<int64_t>(block->size);
    }
    if (!block->grows) [[likely]] {
      counters_.inactiveSplit.change(kind, splits);
      counters_.inactiveSplitBytes.change(kind, splitBytes);
    }
    insertFree(block);
  }

  /// The allocated block that starts there, or nullptr.
  PoolBlock* findAllocated(const void* pointer) const {
    PoolBlock* block = table_.find(pointer);
    return block && block->state == PoolBlock::Allocated ? block : nullptr;
  }

  /// The first block of the segment, or of the part with memory of one that grows, which
  /// starts there; nullptr if there is none.
  PoolBlock* first(char* pointer) const;

  /// The blocks of a private pool that are in use.
  std::vector<PoolBlock*> usedIn(PoolId pool) const;

  /// The segments that have no block in use and whose home is accepted, the large
  /// ones first, then by stream, size and address.
  template <class Accept>
  std::vector<PoolBlock*> unused(Accept accept) const {
    std::vector<PoolBlock*> found;
    for (const auto& [pointer, segment] : segments_) {
      PoolBlock* block = segment.first;
      if (block->isWholeSegment() && block->state == PoolBlock::Free &&
          !block->grows && accept(*block->home)) {
        found.push_back(block);
      }
    }
    sortUnused(found);
    return found;
  }

  /// All segments, or those of a private pool, by address.
  std::vector<PoolSegmentInfo> describe(PoolId pool) const;

 private:
  struct Segment {
    PoolBlock* first;
    PoolContext context;
    size_t unit = 0; // 0: it does not grow
  };
  using BySegment = std::map<char*, Segment>;

  PoolBlock* newBlock() {
    if (!spares_) {
      return &blocks_.emplace_back();
    }
    return std::exchange(spares_, spares_->after);
  }
  void recycle(PoolBlock* block) {
    if (block->listed) {
      table_.erase(block);
      block->listed = false;
    }
    block->after = std::exchange(spares_, block);
  }
  static void insertFree(PoolBlock* block) {
    FreeBlocks& home = *block->home;
    block->freedAt = home.arena.searches[home.kind];
    home.insert(block);
  }
  // Leaves `size` bytes in the block; the rest becomes a block after it.
  PoolBlock* splitOff(PoolBlock* block, size_t size) {
    PoolBlock* rest = newBlock();
    rest->pointer = block->pointer + size;
    rest->size = block->size - size;
    rest->home = block->home;
    rest->grows = block->grows;
    rest->before = block;
    rest->after = block->after;
    if (rest->after) {
      rest->after->before = rest;
    }
    block->after = rest;
    block->size = size;
    return rest;
  }
  PoolBlock* join(PoolBlock* left, PoolBlock* right) {
    left->size += right->size;
    left->after = right->after;
    if (left->after) {
      left->after->before = left;
    }
    recycle(right);
    return left;
  }
  BySegment::const_iterator segmentOf(const PoolBlock* block) const;
  static void sortUnused(std::vector<PoolBlock*>& blocks);

  PoolCounters& counters_;
  PoolBlock* spares_ = nullptr; // linked by `after`
  BlockTable table_; // blocks that are, or once were, allocated
  std::deque<PoolBlock> blocks_; // all there ever were
  BySegment segments_;
};

} // namespace c10::openreg
