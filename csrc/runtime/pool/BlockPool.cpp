#include "runtime/OpenRegBlockPool.h"

#include <algorithm>
#include <bit>

namespace c10::openreg {
namespace {

// docs:begin block-sizes
constexpr size_t kMiB = 1 << 20;
constexpr size_t kLargestSmallBlock = 1 * kMiB;
constexpr size_t kSmallSegment = 2 * kMiB;
constexpr size_t kOwnSegment = 10 * kMiB; // from here on a segment per block
constexpr size_t kOwnSegmentRounding = 2 * kMiB;
// docs:end block-sizes

// Rounding would overflow; no device has that much anyway.
constexpr size_t kTooLarge = SIZE_MAX;

size_t roundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

bool isSmall(size_t size) {
  return size <= kLargestSmallBlock;
}

int64_t asInt(size_t value) {
  return static_cast<int64_t>(value);
}

// Rounded up to a part of the interval between two powers of two; 0 if there
// are no parts, or if they would be smaller than a block.
size_t roundUpToPart(size_t bytes, const PoolConfig& config) {
  const size_t power = std::bit_floor(bytes);
  const auto& all = config.roundupPower2Divisions;
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

} // namespace

inline size_t BlockPool::blockSize(size_t bytes) const {
  if (bytes > SIZE_MAX - kOwnSegmentRounding) {
    return kTooLarge;
  }
  if (roundsToPowers_) {
    if (const size_t size = roundUpToPart(bytes, config_)) {
      return size;
    }
  }
  return roundUp(bytes, kSmallestBlock);
}

size_t BlockPool::segmentSize(size_t size) const {
  if (isSmall(size)) {
    return kSmallSegment;
  }
  const size_t own =
      size == kTooLarge ? kTooLarge : roundUp(size, kOwnSegmentRounding);
  return size < kOwnSegment ? std::max(own, config_.largeSegmentSize) : own;
}

// --- blocks ------------------------------------------------------------------

inline BlockPool::Block* BlockPool::newBlock() {
  if (!spares_) {
    return &blocks_.emplace_back();
  }
  return std::exchange(spares_, spares_->after);
}

inline FreeBlocks& BlockPool::freeBlocks(size_t size, Stream stream) {
  Cache* cache = lastCache_;
  if (PoolArena* arena = arenaFor(stream)) {
    cache = &arena->cacheOf(stream);
  } else if (!cache || cache->small.stream != stream) {
    cache = lastCache_ = &default_.cacheOf(stream);
  }
  return isSmall(size) ? cache->small : cache->large;
}

inline void BlockPool::insertFree(Block* block) {
  FreeBlocks& home = *block->home;
  block->freedAt = home.arena.searches[home.kind];
  home.insert(block);
}

size_t BlockPool::segmentSizeFor(size_t bytes) {
  const Lock lock(lock_);
  return segmentSize(blockSize(bytes));
}

// --- allocating --------------------------------------------------------------

size_t BlockPool::failAllocation(size_t n) {
  const Lock lock(lock_);
  return std::exchange(untilFailure_, n);
}

void* BlockPool::allocate(
    size_t bytes,
    Stream stream,
    const PoolContext& context) {
  {
    const std::lock_guard lock(lock_);
    const Request request{bytes, blockSize(bytes), stream, context};
    FreeBlocks& blocks = startSearch(request);
    if (untilFailure_ == 0) [[likely]] {
      if (Block* block = takeCached(blocks, request.size)) [[likely]] {
        return finishAllocation(block, request);
      }
    }
  }
  return allocateAnyhow(bytes, stream, context);
}

void* BlockPool::tryAllocate(
    size_t bytes,
    Stream stream,
    const PoolContext& context) {
  const std::lock_guard lock(lock_);
  const Request request{bytes, blockSize(bytes), stream, context};
  FreeBlocks& blocks = startSearch(request);
  if (untilFailure_ == 1) [[unlikely]] {
    return nullptr;
  }
  Block* block = takeCached(blocks, request.size);
  block = block ? block : takeNew(blocks, request);
  if (!block) {
    return nullptr;
  }
  untilFailure_ -= untilFailure_ != 0;
  return finishAllocation(block, request);
}

void BlockPool::noteFailure(
    size_t bytes,
    Stream stream,
    const PoolContext& context) {
  Lock lock(lock_);
  fail({bytes, blockSize(bytes), stream, context}, lock);
}

inline FreeBlocks& BlockPool::startSearch(const Request& request) {
  reclaimFinished();
  FreeBlocks& blocks = freeBlocks(request.size, request.stream);
  if (collects()) [[unlikely]] {
    ++blocks.arena.searches[blocks.kind]; // by which the age of blocks counts
  }
  return blocks;
}

// For what the cache does not have, by way of all that helps.
void* BlockPool::allocateAnyhow(
    size_t bytes,
    Stream stream,
    const PoolContext& context) {
  Lock lock(lock_);
  const Request request{bytes, blockSize(bytes), stream, context};
  if (untilFailure_ != 0 && --untilFailure_ == 0) {
    return fail(request, lock);
  }
  if (collects()) {
    collectGarbage(lock, context);
  }
  // The cache is looked at each time: another thread may have freed a block.
  Block* block = take(request);
  if (!block &&
      releaseEnough(lock, freeBlocks(request.size, request.stream), request)) {
    block = take(request);
  }
  if (!block && routes_.empty()) {
    ++counters_.others.retries;
    releaseCache(lock, PoolId{}, context);
    block = take(request);
  }
  if (!block) {
    block = takeFromLastResorts(request);
  }
  return block ? finishAllocation(block, request) : fail(request, lock);
}

BlockPool::Block* BlockPool::take(const Request& request) {
  FreeBlocks& blocks = freeBlocks(request.size, request.stream);
  Block* block = takeCached(blocks, request.size);
  return block ? block : takeNew(blocks, request);
}

inline BlockPool::Block* BlockPool::takeCached(FreeBlocks& from, size_t size) {
  // What is oversize is for oversize requests, and not for much smaller ones.
  const bool oversize = size >= config_.maxSplitSize;
  return from.take(
      size,
      oversize ? size + config_.maxNonSplitRounding - 1
               : config_.maxSplitSize - 1);
}

BlockPool::Block* BlockPool::takeFromLastResorts(const Request& request) {
  if (arenaFor(request.stream)) {
    return nullptr;
  }
  const auto kind = freeBlocks(request.size, request.stream).kind;
  for (auto& [id, arena] : private_) {
    if (arena.lastResort) {
      FreeBlocks& blocks = arena.cacheOf(request.stream).of(kind);
      if (Block* block = takeCached(blocks, request.size)) {
        return block;
      }
    }
  }
  return nullptr;
}

BlockPool::Block* BlockPool::takeNew(FreeBlocks& home, const Request& request) {
  const size_t bytes = segmentSize(request.size);
  const auto reserved = static_cast<size_t>(counters_.reservedBytes.current());
  if (bytes > limit_ || reserved > limit_ - bytes || bytes == kTooLarge) {
    return nullptr;
  }
  void* pointer = device_.mapSegment(bytes);
  if (!pointer) {
    return nullptr;
  }
  Block* block = newBlock();
  block->pointer = static_cast<char*>(pointer);
  block->size = bytes;
  block->home = &home;
  block->before = block->after = nullptr;
  segments_.emplace(block->pointer, Segment{block, request.context});
  countSegment(block, 1);
  recordEvent(
      PoolTraceEntry::SegmentAlloc,
      block->pointer,
      bytes,
      home,
      request.context);
  return block;
}

inline void* BlockPool::finishAllocation(Block* block, const Request& request) {
  const FreeBlocks& home = *block->home;
  const auto kind = home.kind;
  const bool wasSplit = !block->isWholeSegment();
  if (worthSplitting(block, request.size)) {
    splitOff(block, request.size);
    if (wasSplit) {
      counters_.inactiveSplitBytes.subtract(kind, asInt(block->size));
    } else {
      counters_.inactiveSplitBytes.add(kind, asInt(block->after->size));
      counters_.inactiveSplit.add(kind, 1);
    }
  } else if (wasSplit) {
    counters_.inactiveSplitBytes.subtract(kind, asInt(block->size));
    counters_.inactiveSplit.subtract(kind, 1);
  }
  block->state = Block::Allocated;
  block->requested = request.bytes;
  if (!block->listed) {
    table_.insert(block);
    block->listed = true;
  }
  const int64_t bytes = asInt(block->size);
  counters_.allocation.add(kind, 1);
  counters_.allocatedBytes.add(kind, bytes);
  counters_.active.add(kind, 1);
  counters_.activeBytes.add(kind, bytes);
  counters_.requestedBytes.add(kind, asInt(request.bytes));
  if (block->size >= config_.maxSplitSize) [[unlikely]] {
    counters_.others.oversizeAllocations.add(1);
  }
  if (request.context) [[unlikely]] {
    block->context = request.context;
  }
  recordEvent(
      PoolTraceEntry::Alloc,
      block->pointer,
      request.bytes,
      home,
      request.context);
  return block->pointer;
}

// Whether what is left of a block is worth being one.
inline bool BlockPool::worthSplitting(const Block* block, size_t size) const {
  const FreeBlocks& home = *block->home;
  const size_t rest = block->size - size;
  if (home.kind == PoolCounter::Small) {
    return rest >= kSmallestBlock && home.arena.splits;
  }
  return rest > kLargestSmallBlock && size < config_.maxSplitSize &&
      home.arena.splits;
}

// Leaves `size` bytes in the block; the rest becomes a free block after it.
inline void BlockPool::splitOff(Block* block, size_t size) {
  Block* rest = newBlock();
  rest->pointer = block->pointer + size;
  rest->size = block->size - size;
  rest->home = block->home;
  rest->before = block;
  rest->after = block->after;
  if (rest->after) {
    rest->after->before = rest;
  }
  block->after = rest;
  block->size = size;
  insertFree(rest);
}

// --- freeing -----------------------------------------------------------------

bool BlockPool::free(void* pointer, const PoolContext& context) {
  const std::lock_guard lock(lock_);
  Block* block = table_.find(pointer);
  if (!block || block->state != Block::Allocated) {
    return false;
  }
  const auto kind = block->home->kind;
  counters_.allocation.subtract(kind, 1);
  counters_.allocatedBytes.subtract(kind, asInt(block->size));
  if (block->size >= config_.maxSplitSize) [[unlikely]] {
    counters_.others.oversizeAllocations.subtract(1);
  }
  recordEvent(
      PoolTraceEntry::FreeRequested,
      pointer,
      block->requested,
      *block->home,
      context ? context : block->context);
  if (device_.runsElsewhere(block->home->stream)) [[unlikely]] {
    block->usedBy.push_back(block->home->stream);
  }
  if (block->usedBy.empty()) [[likely]] {
    makeFree(block, context);
  } else {
    park(block, context);
  }
  return true;
}

bool BlockPool::recordStream(void* pointer, Stream stream) {
  const std::lock_guard lock(lock_);
  Block* block = table_.find(pointer);
  if (!block || block->state != Block::Allocated) {
    return false;
  }
  auto& used = block->usedBy;
  if (stream != block->home->stream &&
      std::find(used.begin(), used.end(), stream) == used.end()) {
    used.push_back(stream);
  }
  return true;
}

// A free block has no free neighbours: they become one.
void BlockPool::makeFree(Block* block, const PoolContext& context) {
  const auto kind = block->home->kind;
  recordEvent(
      PoolTraceEntry::FreeCompleted,
      block->pointer,
      block->requested,
      *block->home,
      context ? context : block->context);
  if (block->context) [[unlikely]] {
    block->context.reset();
  }
  counters_.active.subtract(kind, 1);
  counters_.activeBytes.subtract(kind, asInt(block->size));
  counters_.requestedBytes.subtract(kind, asInt(block->requested));
  block->state = Block::Free;
  int64_t splits = 0, splitBytes = 0;
  const auto takeNeighbour = [&](Block* neighbour) {
    if (!neighbour || neighbour->state != Block::Free) {
      return false;
    }
    neighbour->home->remove(neighbour);
    --splits;
    splitBytes -= asInt(neighbour->size);
    return true;
  };
  if (takeNeighbour(block->before)) {
    block = join(block->before, block);
  }
  if (takeNeighbour(block->after)) {
    block = join(block, block->after);
  }
  if (!block->isWholeSegment()) {
    ++splits;
    splitBytes += asInt(block->size);
  }
  counters_.inactiveSplit.change(kind, splits);
  counters_.inactiveSplitBytes.change(kind, splitBytes);
  insertFree(block);
}

// The left one stays, so that the first block of a segment is always the same.
inline BlockPool::Block* BlockPool::join(Block* left, Block* right) {
  left->size += right->size;
  left->after = right->after;
  if (left->after) {
    left->after->before = left;
  }
  recycle(right);
  return left;
}

// --- waiting -----------------------------------------------------------------

void BlockPool::unmap(Lock& lock, const std::vector<void*>& segments) {
  // docs:begin wait-without-lock
  // Unmapping waits for the device, and what runs there may need the lock to
  // come to its end.
  lock.unlock();
  for (void* segment : segments) {
    device_.unmapSegment(segment);
  }
  lock.lock();
  // docs:end wait-without-lock
}

} // namespace c10::openreg
