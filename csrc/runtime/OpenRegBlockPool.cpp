#include "runtime/OpenRegBlockPool.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

namespace c10::openreg {
namespace {

// docs:begin block-sizes
constexpr size_t kMiB = 1 << 20;
constexpr size_t kSmallestBlock = 512;
constexpr size_t kLargestSmallBlock = 1 * kMiB;
constexpr size_t kSmallSegment = 2 * kMiB;
constexpr size_t kLargeSegment = 20 * kMiB;
constexpr size_t kOwnSegment = 10 * kMiB; // from here on a segment per block
constexpr size_t kOwnSegmentRounding = 2 * kMiB;
// docs:end block-sizes

size_t roundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Rounding would overflow; no device has that much anyway.
constexpr size_t kTooLarge = SIZE_MAX;

size_t blockSize(size_t bytes) {
  return bytes > SIZE_MAX - kOwnSegmentRounding
      ? kTooLarge
      : roundUp(bytes, kSmallestBlock);
}

bool isSmall(size_t size) {
  return size <= kLargestSmallBlock;
}

size_t segmentSize(size_t size) {
  if (isSmall(size)) {
    return kSmallSegment;
  }
  return size < kOwnSegment ? kLargeSegment
                            : roundUp(size, kOwnSegmentRounding);
}

int64_t asInt(size_t value) {
  return static_cast<int64_t>(value);
}

} // namespace

bool BlockPool::Order::operator()(const Block* a, const Block* b) const {
  if (a->stream != b->stream) {
    return std::less<>()(a->stream, b->stream);
  }
  if (a->size != b->size) {
    return a->size < b->size;
  }
  return std::less<>()(a->pointer, b->pointer);
}

// Whether what is left of a block is worth being one.
bool BlockPool::worthSplitting(const Block* block, size_t size) {
  const size_t rest = block->size - size;
  return block->small ? rest >= kSmallestBlock : rest > kLargestSmallBlock;
}

BlockPool::~BlockPool() {
  for (const FreeBlocks* blocks : {&freeSmall_, &freeLarge_}) {
    for (Block* block : *blocks) {
      delete block;
    }
  }
  for (const auto& [pointer, block] : allocated_) {
    delete block;
  }
  std::set<Block*> parked; // a block may wait for several events
  for (const auto& [stream, waiting] : parked_) {
    for (const auto& [event, block] : waiting) {
      parked.insert(block);
    }
  }
  for (Block* block : parked) {
    delete block;
  }
}

// --- blocks and the free ones among them --------------------------------------

BlockPool::Block* BlockPool::newBlock() {
  if (spares_.empty()) {
    return new Block;
  }
  Block* block = spares_.back().release();
  spares_.pop_back();
  return block;
}

// Keeps the nodes and the capacity of the vectors; the rest starts anew.
void BlockPool::recycle(Block* block) {
  block->before = block->after = nullptr;
  spares_.emplace_back(block);
}

void BlockPool::insertFree(Block* block) {
  FreeBlocks& blocks = freeBlocks(block);
  if (block->freeNode) {
    blocks.insert(std::move(block->freeNode));
  } else {
    blocks.insert(block);
  }
}

void BlockPool::takeFree(Block* block) {
  block->freeNode = freeBlocks(block).extract(block);
}

// --- allocating ---------------------------------------------------------------

void* BlockPool::allocate(size_t bytes, BlockDevice::Stream stream) {
  if (void* pointer = tryAllocate(bytes, stream)) {
    return pointer;
  }
  const size_t size = blockSize(bytes);
  Lock lock(mutex_);
  ++stats_.retries;
  releaseCache(lock);
  // A block that was parked may fit, and another thread may have freed one.
  Block* block = take(size, stream);
  if (!block) {
    ++stats_.outOfMemory;
    return nullptr;
  }
  return finishAllocation(block, size, bytes);
}

void* BlockPool::tryAllocate(size_t bytes, BlockDevice::Stream stream) {
  const size_t size = blockSize(bytes);
  const Lock lock(mutex_);
  reclaimFinished();
  Block* block = take(size, stream);
  return block ? finishAllocation(block, size, bytes) : nullptr;
}

BlockPool::Block* BlockPool::take(size_t size, BlockDevice::Stream stream) {
  if (size == kTooLarge) {
    return nullptr;
  }
  Block* block = takeCached(size, stream);
  return block ? block : takeNew(size, stream);
}

// The smallest free block of the stream that is large enough.
BlockPool::Block* BlockPool::takeCached(
    size_t size,
    BlockDevice::Stream stream) {
  Block key;
  key.size = size;
  key.stream = stream;
  FreeBlocks& blocks = isSmall(size) ? freeSmall_ : freeLarge_;
  const auto found = blocks.lower_bound(&key);
  if (found == blocks.end() || (*found)->stream != stream) {
    return nullptr;
  }
  Block* block = *found;
  block->freeNode = blocks.extract(found);
  return block;
}

BlockPool::Block* BlockPool::takeNew(size_t size, BlockDevice::Stream stream) {
  void* pointer = device_.mapSegment(segmentSize(size));
  if (!pointer) {
    return nullptr;
  }
  Block* block = newBlock();
  block->pointer = pointer;
  block->size = segmentSize(size);
  block->stream = stream;
  block->small = isSmall(size);
  ++stats_.maps;
  count(stats_.segment, block, 1);
  count(stats_.reservedBytes, block, asInt(block->size));
  return block;
}

void* BlockPool::finishAllocation(Block* block, size_t size, size_t requested) {
  const bool wasSplit = !block->isWholeSegment();
  if (worthSplitting(block, size)) {
    splitOff(block, size);
    if (wasSplit) {
      count(stats_.inactiveSplitBytes, block, -asInt(block->size));
    } else {
      count(stats_.inactiveSplitBytes, block, asInt(block->after->size));
      count(stats_.inactiveSplit, block, 1);
    }
  } else if (wasSplit) {
    count(stats_.inactiveSplitBytes, block, -asInt(block->size));
    count(stats_.inactiveSplit, block, -1);
  }
  block->allocated = true;
  block->requested = requested;
  if (block->allocatedNode) {
    block->allocatedNode.key() = block->pointer;
    allocated_.insert(std::move(block->allocatedNode));
  } else {
    allocated_.emplace(block->pointer, block);
  }
  count(stats_.allocation, block, 1);
  count(stats_.allocatedBytes, block, asInt(block->size));
  count(stats_.active, block, 1);
  count(stats_.activeBytes, block, asInt(block->size));
  count(stats_.requestedBytes, block, asInt(requested));
  return block->pointer;
}

// Leaves `size` bytes in the block; the rest becomes a free block after it.
void BlockPool::splitOff(Block* block, size_t size) {
  Block* rest = newBlock();
  rest->pointer = static_cast<char*>(block->pointer) + size;
  rest->size = block->size - size;
  rest->stream = block->stream;
  rest->small = block->small;
  rest->before = block;
  rest->after = block->after;
  if (rest->after) {
    rest->after->before = rest;
  }
  block->after = rest;
  block->size = size;
  insertFree(rest);
}

// --- freeing ------------------------------------------------------------------

bool BlockPool::free(void* pointer) {
  const Lock lock(mutex_);
  const auto found = allocated_.find(pointer);
  if (found == allocated_.end()) {
    return false;
  }
  Block* block = found->second;
  block->allocatedNode = allocated_.extract(found);
  block->allocated = false;
  count(stats_.allocation, block, -1);
  count(stats_.allocatedBytes, block, -asInt(block->size));
  park(block);
  if (block->pendingEvents == 0) {
    makeFree(block);
  }
  return true;
}

bool BlockPool::recordStream(void* pointer, BlockDevice::Stream stream) {
  const Lock lock(mutex_);
  const auto found = allocated_.find(pointer);
  if (found == allocated_.end()) {
    return false;
  }
  auto& [key, block] = *found;
  auto& used = block->usedBy;
  if (stream != block->stream &&
      std::find(used.begin(), used.end(), stream) == used.end()) {
    used.push_back(stream);
  }
  return true;
}

void BlockPool::park(Block* block) {
  for (BlockDevice::Stream stream : std::exchange(block->usedBy, {})) {
    if (BlockDevice::Event event = device_.record(stream)) {
      parked_[stream].emplace_back(event, block);
      ++block->pendingEvents;
    }
  }
}

void BlockPool::reclaimFinished() {
  for (auto& [stream, waiting] : parked_) {
    while (!waiting.empty() && device_.finished(waiting.front().first)) {
      const auto [event, block] = waiting.front();
      waiting.pop_front();
      device_.destroy(event);
      if (--block->pendingEvents == 0) {
        makeFree(block);
      }
    }
  }
}

void BlockPool::makeFree(Block* block) {
  count(stats_.active, block, -1);
  count(stats_.activeBytes, block, -asInt(block->size));
  count(stats_.requestedBytes, block, -asInt(block->requested));
  for (Block* neighbour : {block->before, block->after}) {
    if (neighbour && neighbour->isFree()) {
      absorb(block, neighbour);
    }
  }
  if (!block->isWholeSegment()) {
    count(stats_.inactiveSplit, block, 1);
    count(stats_.inactiveSplitBytes, block, asInt(block->size));
  }
  insertFree(block);
}

// Makes a free neighbour part of the block.
void BlockPool::absorb(Block* block, Block* neighbour) {
  takeFree(neighbour);
  count(stats_.inactiveSplit, neighbour, -1);
  count(stats_.inactiveSplitBytes, neighbour, -asInt(neighbour->size));
  if (neighbour == block->before) {
    block->pointer = neighbour->pointer;
    block->before = neighbour->before;
    if (block->before) {
      block->before->after = block;
    }
  } else {
    block->after = neighbour->after;
    if (block->after) {
      block->after->before = block;
    }
  }
  block->size += neighbour->size;
  recycle(neighbour);
}

// --- giving memory back -------------------------------------------------------

void BlockPool::emptyCache() {
  Lock lock(mutex_);
  releaseCache(lock);
}

void BlockPool::releaseCache(Lock& lock) {
  waitForParked(lock);
  std::vector<void*> segments;
  for (FreeBlocks* blocks : {&freeLarge_, &freeSmall_}) {
    for (auto next = blocks->begin(); next != blocks->end();) {
      Block* block = *next;
      if (!block->isWholeSegment()) {
        ++next;
        continue;
      }
      block->freeNode = blocks->extract(next++);
      ++stats_.unmaps;
      count(stats_.segment, block, -1);
      count(stats_.reservedBytes, block, -asInt(block->size));
      segments.push_back(block->pointer);
      recycle(block);
    }
  }
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

void BlockPool::waitForParked(Lock& lock) {
  const auto parked = std::exchange(parked_, {});
  lock.unlock();
  for (const auto& [stream, waiting] : parked) {
    for (const auto& [event, block] : waiting) {
      device_.wait(event);
      device_.destroy(event);
    }
  }
  lock.lock();
  for (const auto& [stream, waiting] : parked) {
    for (const auto& [event, block] : waiting) {
      if (--block->pendingEvents == 0) {
        makeFree(block);
      }
    }
  }
}

// --- looking ------------------------------------------------------------------

PoolStats BlockPool::stats() {
  const Lock lock(mutex_);
  return stats_;
}

void BlockPool::resetPeakStats() {
  const Lock lock(mutex_);
  stats_.forEach([](PoolStats::Array& array) {
    for (PoolStat& stat : array) {
      stat.peak = stat.current;
    }
  });
}

void BlockPool::resetAccumulatedStats() {
  const Lock lock(mutex_);
  stats_.forEach([](PoolStats::Array& array) {
    for (PoolStat& stat : array) {
      stat.allocated = 0;
      stat.freed = 0;
    }
  });
  stats_.retries = 0;
  stats_.outOfMemory = 0;
}

} // namespace c10::openreg
