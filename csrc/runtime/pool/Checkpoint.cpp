#include "runtime/pool/Checkpoint.h"

#include <algorithm>

namespace c10::openreg {
namespace {

PoolBlock* firstOf(const Segments& segments, const PoolSegmentInfo& segment) {
  return segments.first(reinterpret_cast<char*>(segment.address));
}

} // namespace

bool PoolCheckpoint::fits(const Segments& segments) const {
  return std::all_of(
      segments_.begin(), segments_.end(), [&](const PoolSegmentInfo& segment) {
        size_t bytes = 0;
        const PoolBlock* block = firstOf(segments, segment);
        const bool same = block && block->home->arena.id == pool_;
        for (; block && block->hasMemory(); block = block->after) {
          bytes += block->size;
        }
        // One that grows may have grown since.
        return same &&
            (segment.grows ? bytes >= segment.size : bytes == segment.size);
      });
}

// Takes every block, those that were free too: so each starts where it did.
std::vector<PoolBlock*> PoolCheckpoint::cut(
    Segments& segments,
    const PoolSegmentInfo& segment) const {
  std::vector<PoolBlock*> blocks;
  PoolBlock* next = firstOf(segments, segment);
  for (const PoolBlockInfo& block : segment.blocks) {
    next->home->remove(next);
    segments.cut(next, block.size, next->size > block.size);
    blocks.push_back(next);
    next = next->after;
  }
  return blocks;
}

std::optional<PoolRestoration> PoolCheckpoint::restore(
    Segments& segments,
    PoolCounters& counters) const {
  const auto used = segments.usedIn(pool_);
  const bool isParked =
      std::any_of(used.begin(), used.end(), [](const PoolBlock* block) {
        return block->state == PoolBlock::Parked;
      });
  if (isParked || !fits(segments)) {
    return std::nullopt;
  }
  PoolRestoration changed;
  for (PoolBlock* block : used) {
    changed.freed.push_back(block->pointer);
    counters.countFree(block->home->kind, block->size);
    counters.countInactive(block->home->kind, block->size, block->requested);
    block->usedBy.clear();
    block->context.reset();
    segments.merge(block);
  }
  for (const PoolSegmentInfo& segment : segments_) {
    const auto blocks = cut(segments, segment);
    for (size_t i = 0; i < blocks.size(); ++i) {
      PoolBlock* const block = blocks[i];
      if (segment.blocks[i].state != PoolBlockInfo::ActiveAllocated) {
        segments.merge(block);
        continue;
      }
      block->requested = segment.blocks[i].requested;
      counters.countAllocation(
          block->home->kind, block->size, block->requested);
      changed.allocated.push_back(block->pointer);
    }
  }
  return changed;
}

} // namespace c10::openreg
