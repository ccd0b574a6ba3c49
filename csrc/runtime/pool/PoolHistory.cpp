// The block pool: figures, snapshots and history.
#include "runtime/OpenRegBlockPool.h"

#include <chrono>

namespace c10::openreg {

// --- figures -----------------------------------------------------------------

PoolStats BlockPool::stats() {
  const std::lock_guard lock(lock_);
  return counters_.read();
}

std::map<PoolId, PoolStats::Array> BlockPool::reservedByPool() {
  const std::lock_guard lock(lock_);
  std::map<PoolId, PoolStats::Array> figures;
  for (const auto& [id, reserved] : reserved_) {
    figures[id] = PoolCounters::since(reserved.counter, reserved.atReset);
  }
  return figures;
}

void BlockPool::resetPeakStats() {
  const std::lock_guard lock(lock_);
  counters_.resetPeaks();
  for (auto& [id, reserved] : reserved_) {
    reserved.counter.resetPeak();
  }
}

void BlockPool::resetAccumulatedStats() {
  const std::lock_guard lock(lock_);
  counters_.resetSums();
  std::erase_if(reserved_, [&](const auto& item) {
    return item.second.counter.current() == 0 && !private_.count(item.first);
  });
  for (auto& [id, reserved] : reserved_) {
    reserved.atReset = reserved.counter.read();
  }
}

// --- snapshots ---------------------------------------------------------------

namespace {

PoolBlockInfo describe(const PoolBlock& block) {
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

std::vector<PoolSegmentInfo> BlockPool::snapshot(PoolId pool) {
  const std::lock_guard lock(lock_);
  std::vector<PoolSegmentInfo> segments;
  size_t allActive = 0;
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
    for (const Block* block = segment.first; block; block = block->after) {
      const auto& part = info.blocks.emplace_back(describe(*block));
      const bool active = part.state != PoolBlockInfo::Inactive;
      const bool allocated = part.state == PoolBlockInfo::ActiveAllocated;
      info.size += part.size;
      info.requested += part.requested;
      info.active += active ? part.size : 0;
      info.allocated += allocated ? part.size : 0;
    }
    allActive += info.active;
  }
  if (recording_) {
    addToHistory(
        PoolTraceEntry::Snapshot,
        nullptr,
        allActive,
        nullptr,
        pool,
        kNoContext);
  }
  return segments;
}

// --- history -----------------------------------------------------------------

void BlockPool::recordHistory(
    bool on,
    PoolRecord record,
    size_t entries,
    bool clear) {
  std::vector<PoolTraceEntry> old; // goes without the lock
  const std::lock_guard lock(lock_);
  recording_ = on;
  record_ = on ? record : PoolRecord::Never;
  if (!on || clear) {
    old = history_.clear();
  }
  history_.setCapacity(entries);
}

std::vector<PoolTraceEntry> BlockPool::history() {
  const std::lock_guard lock(lock_);
  return history_.read();
}

void BlockPool::addToHistory(
    PoolTraceEntry::Action action,
    const void* address,
    size_t size,
    Stream stream,
    PoolId pool,
    const PoolContext& context) {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  history_.add(
      {action,
       reinterpret_cast<uintptr_t>(address),
       size,
       stream,
       pool,
       std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(),
       shouldGather(PoolRecord::Alloc) ? context : kNoContext});
}

// --- failures ----------------------------------------------------------------

void BlockPool::observeOutOfMemory(
    std::function<void(const PoolOutOfMemory&)> observer) {
  const std::lock_guard lock(lock_);
  observers_.push_back(std::move(observer));
}

void* BlockPool::fail(const Request& request, Lock& lock) {
  ++counters_.others.outOfMemory;
  if (!recording_ && observers_.empty()) {
    return nullptr;
  }
  PoolOutOfMemory what{segmentSize(request.size), limit_, 0};
  const PoolArena* arena = arenaFor(request.stream);
  const PoolId pool = arena ? arena->id : PoolId{};
  lock.unlock();
  const auto [free, total] = device_.memoryInfo();
  what.free = free;
  what.allowed = std::min(what.allowed, total);
  lock.lock();
  if (recording_) {
    addToHistory(
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

} // namespace c10::openreg
