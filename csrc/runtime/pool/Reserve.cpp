#include "runtime/pool/Reserve.h"

#include <algorithm>

namespace c10::openreg {

PoolBlock* Reserve::map(
    FreeBlocks& home,
    size_t size,
    const PoolContext& context) {
  const size_t bytes = sizes_.segmentSize(size);
  if (bytes == BlockSizes::kTooLarge || bytes > limit_ ||
      this->bytes() > limit_ - bytes) {
    return nullptr;
  }
  const SegmentSource& source = home.arena.source;
  if (sizes_.config().expandableSegments && !source) {
    PoolBlock* room = segments_.findRoom(home, size);
    room = room ? room : addRange(home, size, context);
    if (room) {
      PoolBlock* block = grow(room, size, context);
      if (!block) {
        releaseIfEmpty(room);
      }
      return block;
    }
  }
  void* pointer = source ? source(bytes, home.stream)
                         : device_.mapSegment(bytes, home.stream);
  if (!pointer) {
    return nullptr;
  }
  PoolBlock* segment = segments_.add(pointer, bytes, home, context);
  count(segment, 1);
  history_.note(PoolTraceEntry::SegmentAlloc, pointer, bytes, home, context);
  return segment;
}

void* Reserve::forget(PoolBlock* segment, const PoolContext& context) {
  FreeBlocks& home = *segment->home;
  void* const pointer = segment->pointer;
  const size_t bytes = segment->size;
  home.remove(segment);
  count(segment, -1);
  const PoolContext own = segments_.remove(segment);
  history_.note(
      PoolTraceEntry::SegmentFree,
      pointer,
      bytes,
      home,
      context ? context : own);
  return pointer;
}

void Reserve::unmap(
    const std::vector<void*>& segments,
    const std::vector<PoolBlock*>& units) {
  for (void* segment : segments) {
    device_.unmapSegment(segment);
  }
  for (const PoolBlock* block : units) { // nobody changes what is Leaving
    device_.unmapRange(block->pointer, block->size);
  }
}

// --- segments that grow --------------------------------------------------------

// docs:begin grow
/// A block of at least `size` in a segment that grows: at its end, or where memory was
/// given back. There is room for it from `block` on.
PoolBlock* Reserve::grow(
    PoolBlock* block,
    size_t size,
    const PoolContext& context) {
  FreeBlocks& home = *block->home;
  if (block->state == PoolBlock::Unmapped) {
    block = fill(block, std::min(block->size, size), context);
  } else {
    home.remove(block);
  }
  while (block && block->size < size) {
    PoolBlock* const next = block->after;
    home.insert(block);
    block = fill(next, std::min(next->size, size - block->size), context);
  }
  return block;
}
// docs:end grow

PoolBlock* Reserve::addRange(
    FreeBlocks& home,
    size_t size,
    const PoolContext& context) {
  const size_t unit = sizes_.growth(home.kind == PoolCounter::Small);
  const auto [pointer, bytes] =
      device_.reserveRange((size + unit - 1) / unit * unit, unit);
  if (!pointer) {
    return nullptr;
  }
  ++home.segments;
  ++home.arena.segments;
  return segments_.addGrowing(pointer, bytes, unit, home, context);
}

/// Puts memory behind the first bytes of a block, `size` or some more. Returns the free
/// block that it becomes a part of, in no list; nullptr if there is no memory.
PoolBlock* Reserve::fill(
    PoolBlock* block,
    size_t size,
    const PoolContext& context) {
  FreeBlocks& home = *block->home;
  const size_t unit = segments_.unitOf(block);
  const size_t bytes = (size + unit - 1) / unit * unit;
  char* const pointer = block->pointer;
  if (!device_.mapRange(pointer, bytes, unit, home.stream)) {
    return nullptr;
  }
  counters_.others.maps += 1;
  countBytes(home, static_cast<int64_t>(bytes));
  history_.note(PoolTraceEntry::SegmentMap, pointer, bytes, home, context);
  return segments_.gainMemory(block, bytes);
}

std::vector<PoolBlock*> Reserve::shrink(
    const std::vector<PoolBlock*>& blocks,
    const PoolContext& context) {
  std::vector<PoolBlock*> all;
  for (PoolBlock* block : blocks) {
    FreeBlocks& home = *block->home;
    PoolBlock* const units = segments_.takeUnits(block);
    if (!units) {
      continue;
    }
    all.push_back(units);
    counters_.others.unmaps += 1;
    countBytes(home, -static_cast<int64_t>(units->size));
    history_.note(
        PoolTraceEntry::SegmentUnmap,
        units->pointer,
        units->size,
        home,
        context);
  }
  return all;
}

void Reserve::forgetUnits(const std::vector<PoolBlock*>& units) {
  for (PoolBlock* block : units) {
    releaseIfEmpty(segments_.loseMemory(block));
  }
}

void Reserve::releaseIfEmpty(PoolBlock* block) {
  if (block->state != PoolBlock::Unmapped || !block->isWholeSegment()) {
    return;
  }
  FreeBlocks& home = *block->home;
  --home.segments;
  --home.arena.segments;
  void* const pointer = block->pointer;
  const size_t bytes = block->size;
  segments_.remove(block);
  device_.releaseRange(pointer, bytes);
}

// --- the books -----------------------------------------------------------------

void Reserve::count(const PoolBlock* segment, int change) {
  FreeBlocks& home = *segment->home;
  (change > 0 ? counters_.others.maps : counters_.others.unmaps) += 1;
  home.segments += static_cast<size_t>(change);
  home.arena.segments += static_cast<size_t>(change);
  counters_.segment.change(home.kind, change);
  countBytes(home, change * static_cast<int64_t>(segment->size));
  if (sizes_.isOversize(segment->size)) {
    auto& oversize = counters_.others.oversizeSegments;
    change > 0 ? oversize.add(1) : oversize.subtract(1);
  }
}

void Reserve::countBytes(FreeBlocks& home, int64_t bytes) {
  counters_.reservedBytes.change(home.kind, bytes);
  if (home.arena.id != PoolId{}) {
    byPool_.change(home.arena.id, home.kind, bytes);
  }
}

} // namespace c10::openreg
