#include "runtime/pool/Reserve.h"

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
  void* pointer = device_.mapSegment(bytes, home.stream);
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

void Reserve::unmap(const std::vector<void*>& segments) {
  for (void* segment : segments) {
    device_.unmapSegment(segment);
  }
}

void Reserve::count(const PoolBlock* segment, int change) {
  FreeBlocks& home = *segment->home;
  const int64_t bytes = change * static_cast<int64_t>(segment->size);
  (change > 0 ? counters_.others.maps : counters_.others.unmaps) += 1;
  home.segments += static_cast<size_t>(change);
  home.arena.segments += static_cast<size_t>(change);
  counters_.segment.change(home.kind, change);
  counters_.reservedBytes.change(home.kind, bytes);
  if (home.arena.id != PoolId{}) {
    byPool_.change(home.arena.id, home.kind, bytes);
  }
  if (sizes_.isOversize(segment->size)) {
    auto& oversize = counters_.others.oversizeSegments;
    change > 0 ? oversize.add(1) : oversize.subtract(1);
  }
}

} // namespace c10::openreg
