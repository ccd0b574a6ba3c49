#include "runtime/pool/Segments.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace c10::openreg {
namespace {

PoolBlockInfo describeBlock(const PoolBlock& block) {
  using Info = PoolBlockInfo;
  const auto state = block.state == PoolBlock::Free ? Info::Inactive
      : block.state == PoolBlock::Allocated         ? Info::ActiveAllocated
                                                    : Info::ActivePendingFree;
  return {
      reinterpret_cast<uintptr_t>(block.pointer),
      block.size,
      block.state == PoolBlock::Free ? 0 : block.requested,
      state,
      block.context};
}

} // namespace

PoolBlock* Segments::add(
    void* pointer,
    size_t bytes,
    FreeBlocks& home,
    const PoolContext& context) {
  PoolBlock* block = newBlock();
  block->pointer = static_cast<char*>(pointer);
  block->size = bytes;
  block->home = &home;
  block->grows = false;
  block->before = block->after = nullptr;
  segments_.emplace(block->pointer, Segment{block, context});
  return block;
}

// --- segments that grow --------------------------------------------------------

PoolBlock* Segments::addGrowing(
    void* pointer,
    size_t bytes,
    size_t unit,
    FreeBlocks& home,
    const PoolContext& context) {
  PoolBlock* block = add(pointer, bytes, home, context);
  segments_.at(block->pointer).unit = unit;
  block->grows = true;
  block->state = PoolBlock::Unmapped;
  return block;
}

PoolBlock* Segments::findRoom(const FreeBlocks& home, size_t size) const {
  const auto isRoom = [](const PoolBlock* block) {
    return block->state == PoolBlock::Free ||
        block->state == PoolBlock::Unmapped;
  };
  const auto hasRoom = [&](const PoolBlock* block) {
    size_t bytes = 0;
    for (; block && isRoom(block) && bytes < size; block = block->after) {
      bytes += block->size;
    }
    return bytes >= size;
  };
  for (const auto& [pointer, segment] : segments_) {
    if (!segment.first->grows || segment.first->home != &home) {
      continue;
    }
    for (PoolBlock* block = segment.first; block; block = block->after) {
      if (block->state != PoolBlock::Unmapped) {
        continue;
      }
      PoolBlock* const before = block->before;
      PoolBlock* const start =
          before && before->state == PoolBlock::Free ? before : block;
      if (hasRoom(start)) {
        return start;
      }
    }
  }
  return nullptr;
}

PoolBlock* Segments::gainMemory(PoolBlock* block, size_t bytes) {
  if (bytes < block->size) {
    splitOff(block, bytes)->state = PoolBlock::Unmapped;
  }
  block->state = PoolBlock::Free;
  if (PoolBlock* before = block->before;
      before && before->state == PoolBlock::Free) {
    before->home->remove(before);
    block = join(before, block);
  }
  if (PoolBlock* after = block->after;
      after && after->state == PoolBlock::Free) {
    after->home->remove(after);
    block = join(block, after);
  }
  return block;
}

Segments::BySegment::const_iterator Segments::segmentOf(
    const PoolBlock* block) const {
  return std::prev(segments_.upper_bound(block->pointer));
}

PoolBlock* Segments::takeUnits(PoolBlock* block) {
  const auto& [start, segment] = *segmentOf(block);
  const size_t unit = segment.unit;
  const auto begin = static_cast<size_t>(block->pointer - start);
  const size_t first = (begin + unit - 1) / unit * unit;
  const size_t last = (begin + block->size) / unit * unit;
  if (first >= last) {
    return nullptr;
  }
  block->home->remove(block);
  if (last < begin + block->size) {
    insertFree(splitOff(block, last - begin));
  }
  if (first > begin) {
    PoolBlock* const units = splitOff(block, first - begin);
    insertFree(block);
    block = units;
  }
  block->state = PoolBlock::Leaving;
  return block;
}

PoolBlock* Segments::loseMemory(PoolBlock* block) {
  block->state = PoolBlock::Unmapped;
  const auto isUnmapped = [](const PoolBlock* neighbour) {
    return neighbour && neighbour->state == PoolBlock::Unmapped;
  };
  const auto joinUnmapped = [this](PoolBlock* left, PoolBlock* right) {
    right->state = PoolBlock::Free; // as spare blocks are
    return join(left, right);
  };
  if (isUnmapped(block->before)) {
    block = joinUnmapped(block->before, block);
  }
  if (isUnmapped(block->after)) {
    block = joinUnmapped(block, block->after);
  }
  return block;
}

PoolBlock* Segments::first(char* pointer) const {
  const auto above = segments_.upper_bound(pointer);
  if (above == segments_.begin()) {
    return nullptr;
  }
  PoolBlock* block = std::prev(above)->second.first;
  while (block && block->pointer != pointer) {
    block = block->after;
  }
  const bool starts = block && block->hasMemory() &&
      (!block->before || !block->before->hasMemory());
  return starts ? block : nullptr;
}

// --- all segments --------------------------------------------------------------

PoolContext Segments::remove(PoolBlock* block) {
  auto segment = segments_.extract(block->pointer);
  block->state = PoolBlock::Free; // as spare blocks are
  recycle(block);
  return std::move(segment.mapped().context);
}

void Segments::sortUnused(std::vector<PoolBlock*>& blocks) {
  const auto key = [](const PoolBlock* block) {
    const auto stream = reinterpret_cast<uintptr_t>(block->home->stream);
    return std::tuple(-block->home->kind, stream, block->size, block->pointer);
  };
  std::sort(
      blocks.begin(),
      blocks.end(),
      [&](const PoolBlock* a, const PoolBlock* b) { return key(a) < key(b); });
}

std::vector<PoolBlock*> Segments::usedIn(PoolId pool) const {
  std::vector<PoolBlock*> used;
  for (const auto& [pointer, segment] : segments_) {
    if (segment.first->home->arena.id != pool) {
      continue;
    }
    for (PoolBlock* block = segment.first; block; block = block->after) {
      if (block->state == PoolBlock::Allocated ||
          block->state == PoolBlock::Parked) {
        used.push_back(block);
      }
    }
  }
  return used;
}

std::vector<PoolSegmentInfo> Segments::describe(PoolId pool) const {
  std::vector<PoolSegmentInfo> segments;
  for (const auto& [pointer, segment] : segments_) {
    const FreeBlocks& home = *segment.first->home;
    if (pool != PoolId{} && pool != home.arena.id) {
      continue;
    }
    bool isNew = true; // a part, after what has no memory
    for (const PoolBlock* block = segment.first; block; block = block->after) {
      if (!block->hasMemory()) {
        isNew = true;
        continue;
      }
      if (std::exchange(isNew, false)) {
        auto& info = segments.emplace_back();
        info.address = reinterpret_cast<uintptr_t>(block->pointer);
        info.stream = home.stream;
        info.isLarge = home.kind == PoolCounter::Large;
        info.grows = block->grows;
        info.pool = home.arena.id;
        info.context = segment.context;
      }
      auto& info = segments.back();
      const auto& part = info.blocks.emplace_back(describeBlock(*block));
      const bool active = part.state != PoolBlockInfo::Inactive;
      const bool allocated = part.state == PoolBlockInfo::ActiveAllocated;
      info.size += part.size;
      info.requested += part.requested;
      info.active += active ? part.size : 0;
      info.allocated += allocated ? part.size : 0;
    }
  }
  return segments;
}

} // namespace c10::openreg
