#include "runtime/pool/BlockPool.h"

#include "runtime/pool/Garbage.h"

#include <algorithm>

namespace c10::openreg {

// --- allocating --------------------------------------------------------------

inline FreeBlocks& BlockPool::freeBlocks(const Request& request) {
  return arenas_.freeBlocks(
      BlockSizes::isSmall(request.size) ? PoolCounter::Small
                                        : PoolCounter::Large,
      request.stream);
}

// docs:begin pool-allocate
void* BlockPool::allocate(
    size_t bytes,
    Stream stream,
    const PoolContext& context) {
  {
    const std::lock_guard lock(lock_);
    const Request request{bytes, sizes_.blockSize(bytes), stream, context};
    FreeBlocks& blocks = startSearch(request);
    if (Block* block = takeCached(blocks, request.size)) [[likely]] {
      return finishAllocation(block, request);
    }
  }
  return allocateAnyhow(bytes, stream, context);
}
// docs:end pool-allocate

void* BlockPool::tryAllocate(
    size_t bytes,
    Stream stream,
    const PoolContext& context) {
  const std::lock_guard lock(lock_);
  const Request request{bytes, sizes_.blockSize(bytes), stream, context};
  FreeBlocks& blocks = startSearch(request);
  Block* block = takeCached(blocks, request.size);
  block = block ? block : reserve_.map(blocks, request.size, context);
  return block ? finishAllocation(block, request) : nullptr;
}

inline FreeBlocks& BlockPool::startSearch(const Request& request) {
  if (!parked_.empty()) [[unlikely]] {
    reclaimParked();
  }
  FreeBlocks& blocks = freeBlocks(request);
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
  const Request request{bytes, sizes_.blockSize(bytes), stream, context};
  if (collects()) {
    collectGarbage(lock, context);
  }
  // The cache is looked at each time: another thread may have freed a block.
  Block* block = take(request);
  if (!block && !quarantine_.empty()) {
    endQuarantine(true);
    block = take(request);
  }
  if (!block && releaseEnough(lock, request)) {
    block = take(request);
  }
  if (!block && !arenas_.hasRoutes()) {
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
  FreeBlocks& blocks = freeBlocks(request);
  Block* block = takeCached(blocks, request.size);
  return block ? block : reserve_.map(blocks, request.size, request.context);
}

inline BlockPool::Block* BlockPool::takeCached(FreeBlocks& from, size_t size) {
  const size_t most = sizes_.largestFor(size);
  return mayGrow_
      ? from.takeBesideGrowing(size, most, sizes_.config().expandableSegments)
      : from.take(size, most);
}

BlockPool::Block* BlockPool::takeFromLastResorts(const Request& request) {
  if (arenas_.routeOf(request.stream)) {
    return nullptr;
  }
  const auto kind = freeBlocks(request).kind;
  Block* block = nullptr;
  arenas_.forEachLastResort([&](PoolArena& arena) {
    block = takeCached(arena.cacheOf(request.stream).of(kind), request.size);
    return block != nullptr;
  });
  return block;
}

inline void* BlockPool::finishAllocation(Block* block, const Request& request) {
  const FreeBlocks& home = *block->home;
  const size_t rest = block->size - request.size;
  segments_.cut(
      block,
      request.size,
      sizes_.worthSplitting(
          request.size, rest, home.kind == PoolCounter::Small) &&
          home.arena.splits);
  block->requested = request.bytes;
  counters_.countAllocation(home.kind, block->size, request.bytes);
  if (sizes_.isOversize(block->size)) [[unlikely]] {
    counters_.others.oversizeAllocations.add(1);
  }
  if (request.context) [[unlikely]] {
    block->context = request.context;
  }
  history_.note(
      PoolTraceEntry::Alloc,
      block->pointer,
      request.bytes,
      home,
      request.context);
  return block->pointer;
}

// --- failing -----------------------------------------------------------------

void BlockPool::noteFailure(
    size_t bytes,
    Stream stream,
    const PoolContext& context) {
  Lock lock(lock_);
  fail({bytes, sizes_.blockSize(bytes), stream, context}, lock);
}

void* BlockPool::fail(const Request& request, Lock& lock) {
  ++counters_.others.outOfMemory;
  if (!history_.isOn() && observers_.empty()) {
    return nullptr;
  }
  PoolOutOfMemory what{sizes_.segmentSize(request.size), reserve_.limit(), 0};
  const PoolArena* arena = arenas_.routeOf(request.stream);
  const PoolId pool = arena ? arena->id : PoolId{};
  lock.unlock();
  const auto [free, total] = device_.memoryInfo();
  what.free = free;
  what.allowed = std::min(what.allowed, total);
  lock.lock();
  if (history_.isOn()) {
    history_.add(
        PoolTraceEntry::OutOfMemory,
        reinterpret_cast<void*>(free),
        request.size,
        request.stream,
        pool,
        request.context);
  }
  const auto observers = observers_;
  lock.unlock();
  for (const auto& observer : observers) {
    observer(what);
  }
  return nullptr;
}

// --- freeing -----------------------------------------------------------------

bool BlockPool::free(void* pointer, const PoolContext& context) {
  const std::lock_guard lock(lock_);
  Block* block = segments_.findAllocated(pointer);
  if (!block) {
    return false;
  }
  counters_.countFree(block->home->kind, block->size);
  if (sizes_.isOversize(block->size)) [[unlikely]] {
    counters_.others.oversizeAllocations.subtract(1);
  }
  history_.note(
      PoolTraceEntry::FreeRequested,
      pointer,
      block->requested,
      *block->home,
      context ? context : block->context);
  if (device_.runsElsewhere(block->home->stream)) [[unlikely]] {
    block->usedBy.push_back(block->home->stream);
  }
  if (quarantine_.isOn() && !isPrivate(*block)) [[unlikely]] {
    quarantine_.add(block);
    endQuarantine();
  } else {
    settle(block, context);
  }
  return true;
}

bool BlockPool::recordStream(void* pointer, Stream stream) {
  const std::lock_guard lock(lock_);
  Block* block = segments_.findAllocated(pointer);
  if (!block) {
    return false;
  }
  auto& used = block->usedBy;
  if (stream != block->home->stream &&
      std::find(used.begin(), used.end(), stream) == used.end()) {
    used.push_back(stream);
  }
  return true;
}

void BlockPool::makeFree(Block* block, const PoolContext& context) {
  history_.note(
      PoolTraceEntry::FreeCompleted,
      block->pointer,
      block->requested,
      *block->home,
      context ? context : block->context);
  if (block->context) [[unlikely]] {
    block->context.reset();
  }
  counters_.countInactive(block->home->kind, block->size, block->requested);
  segments_.merge(block);
}

// --- blocks in quarantine, and parked ones -----------------------------------

void BlockPool::endQuarantine(bool ofAll) {
  const auto allocated =
      counters_.allocatedBytes.read()[PoolStats::All].current;
  while (!quarantine_.empty() &&
         (ofAll || quarantine_.isFull(static_cast<size_t>(allocated)))) {
    settle(quarantine_.takeOldest(), kNoContext);
  }
}

void BlockPool::park(Block* block, const PoolContext& context) {
  if (arenas_.hasRoutes()) {
    parked_.defer(block);
  } else if (!parked_.park(block)) {
    makeFree(block, context);
  }
}

void BlockPool::reclaimParked() {
  if (arenas_.hasRoutes()) {
    return;
  }
  const auto free = [this](Block* block) { makeFree(block, kNoContext); };
  parked_.recordDeferred(free);
  parked_.reclaim(free);
}

void BlockPool::waitForParked(Lock& lock, const PoolArena* only) {
  ++counters_.others.waitsForAll;
  const auto free = [this](Block* block) { makeFree(block, kNoContext); };
  if (!arenas_.hasRoutes()) {
    parked_.recordDeferred(free);
  }
  const auto waiting = parked_.take(only);
  if (waiting.empty()) {
    return;
  }
  lock.unlock();
  for (const auto& [event, block] : waiting) {
    device_.wait(event);
    device_.destroy(event);
  }
  lock.lock();
  for (const auto& [event, block] : waiting) {
    ParkedBlocks::release(block, free);
  }
}

// --- giving memory back ------------------------------------------------------

void BlockPool::emptyCache(PoolId pool, const PoolContext& context) {
  Lock lock(lock_);
  releaseCache(lock, pool, context);
}

void BlockPool::giveBack(
    Lock& lock,
    const std::vector<Block*>& segments,
    const PoolContext& context,
    const std::vector<Block*>& freeInGrowing) {
  std::vector<void*> forgotten;
  for (Block* segment : segments) {
    forgotten.push_back(reserve_.forget(segment, context));
  }
  const auto units = reserve_.shrink(freeInGrowing, context);
  // docs:begin wait-without-lock
  // Unmapping waits for the device, and the work that runs there may need the lock to
  // come to its end.
  lock.unlock();
  reserve_.unmap(forgotten, units);
  lock.lock();
  // docs:end wait-without-lock
  reserve_.forgetUnits(units);
}

void BlockPool::releaseCache(
    Lock& lock,
    PoolId pool,
    const PoolContext& context) {
  const bool all = pool == PoolId{};
  if (all) {
    endQuarantine(true);
  }
  if (all && !arenas_.hasRoutes()) {
    waitForParked(lock, nullptr);
  } else if (const PoolArena* arena = arenas_.find(pool);
             arena && arena->users == 0) {
    waitForParked(lock, arena);
  }
  const auto isReleased = [&](const FreeBlocks& blocks) {
    const PoolArena& arena = blocks.arena;
    return &arena == &arenas_.defaultArena()
        ? all && !arenas_.hasRoutes()
        : arena.users == 0 && (all || arena.id == pool);
  };
  const auto released = segments_.unused(isReleased);
  const auto growing = segments_.freeInGrowing(isReleased);
  if (!released.empty() || !growing.empty()) {
    device_.checkUsable();
  }
  giveBack(lock, released, context, growing);
  arenas_.forgetEmpty();
}

// Gives an oversize segment back that is large enough, or else several. Returns
// whether that is enough for the request.
bool BlockPool::releaseEnough(Lock& lock, const Request& request) {
  const size_t oversize = sizes_.config().maxSplitSize;
  if (oversize == SIZE_MAX) {
    return false;
  }
  const FreeBlocks& home = freeBlocks(request);
  const size_t wanted = std::max(request.size, oversize);
  const auto chosen = chooseOversize(
      segments_.unused(
          [&](const FreeBlocks& blocks) { return &blocks == &home; }),
      wanted,
      oversize);
  const bool enough = bytesOf(chosen) >= wanted;
  giveBack(lock, chosen, request.context);
  return enough;
}

// Gives large segments back that have not been used for longer than others, until
// the threshold is kept.
void BlockPool::collectGarbage(Lock& lock, const PoolContext& context) {
  const auto threshold = static_cast<size_t>(
      sizes_.config().garbageCollectionThreshold *
      static_cast<double>(reserve_.limit()));
  if (reserve_.bytes() <= threshold) {
    return;
  }
  const PoolArena& arena = arenas_.defaultArena();
  const auto unused = segments_.unused([&](const FreeBlocks& blocks) {
    return &blocks.arena == &arena && blocks.kind == PoolCounter::Large;
  });
  giveBack(
      lock,
      chooseOld(
          unused,
          reserve_.bytes() - threshold,
          arena.searches[PoolCounter::Large]),
      context);
}

// --- looking -----------------------------------------------------------------

std::vector<PoolSegmentInfo> BlockPool::snapshot(PoolId pool) {
  const std::lock_guard lock(lock_);
  auto segments = segments_.describe(pool);
  if (history_.isOn()) {
    size_t active = 0;
    for (const auto& segment : segments) {
      active += segment.active;
    }
    history_.add(
        PoolTraceEntry::Snapshot, nullptr, active, nullptr, pool, kNoContext);
  }
  return segments;
}

} // namespace c10::openreg
