#include "runtime/pool/Segments.h"

#include <algorithm>
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
  block->before = block->after = nullptr;
  segments_.emplace(block->pointer, Segment{block, context});
  return block;
}

PoolContext Segments::remove(PoolBlock* block) {
  auto segment = segments_.extract(block->pointer);
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
      if (block->state != PoolBlock::Free) {
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
    auto& info = segments.emplace_back();
    info.address = reinterpret_cast<uintptr_t>(pointer);
    info.stream = home.stream;
    info.isLarge = home.kind == PoolCounter::Large;
    info.pool = home.arena.id;
    info.context = segment.context;
    for (const PoolBlock* block = segment.first; block; block = block->after) {
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
