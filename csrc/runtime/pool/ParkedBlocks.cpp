// The block pool: parked blocks and memory given back.
#include "runtime/OpenRegBlockPool.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace c10::openreg {

// --- parked blocks -----------------------------------------------------------

void BlockPool::park(Block* block, const PoolContext& context) {
  block->state = Block::Parked;
  if (!routes_.empty()) {
    deferred_.push_back(block);
    ++parkedCount_;
    return;
  }
  for (Stream stream : std::exchange(block->usedBy, {})) {
    if (BlockDevice::Event event = device_.record(stream)) {
      parked_[stream].push_back({event, block});
      ++parkedCount_;
      ++block->pendingEvents;
    }
  }
  if (block->pendingEvents == 0) {
    makeFree(block, context);
  }
}

void BlockPool::parkDeferred() {
  parkedCount_ -= deferred_.size();
  for (Block* block : std::exchange(deferred_, {})) {
    park(block, kNoContext);
  }
}

void BlockPool::reclaimParked() {
  if (!routes_.empty()) {
    return;
  }
  parkDeferred();
  for (auto& [stream, waiting] : parked_) {
    while (!waiting.empty() && device_.finished(waiting.front().event)) {
      const auto [event, block] = waiting.front();
      waiting.pop_front();
      --parkedCount_;
      device_.destroy(event);
      if (--block->pendingEvents == 0) {
        makeFree(block, kNoContext);
      }
    }
  }
}

void BlockPool::waitForParked(Lock& lock, const PoolArena* only) {
  ++counters_.others.waitsForAll;
  if (routes_.empty()) {
    parkDeferred();
  }
  std::vector<Parked> waiting;
  for (auto& [stream, parked] : parked_) {
    std::erase_if(parked, [&](const Parked& entry) {
      const bool taken = !only || &entry.block->home->arena == only;
      if (taken) {
        waiting.push_back(entry);
      }
      return taken;
    });
  }
  if (waiting.empty()) {
    return;
  }
  parkedCount_ -= waiting.size();
  lock.unlock();
  for (const auto& [event, block] : waiting) {
    device_.wait(event);
    device_.destroy(event);
  }
  lock.lock();
  for (const auto& [event, block] : waiting) {
    if (--block->pendingEvents == 0) {
      makeFree(block, kNoContext);
    }
  }
}

// --- giving memory back ------------------------------------------------------

void BlockPool::emptyCache(PoolId pool, const PoolContext& context) {
  Lock lock(lock_);
  releaseCache(lock, pool, context);
}

// The segments that have no block in use and are accepted, the large ones
// first, then by stream, size and address.
template <class Accept>
std::vector<PoolBlock*> BlockPool::unusedSegments(Accept accept) {
  std::vector<Block*> found;
  for (const auto& [pointer, segment] : segments_) {
    Block* block = segment.first;
    if (block->isWholeSegment() && block->state == Block::Free &&
        accept(*block->home)) {
      found.push_back(block);
    }
  }
  const auto key = [](const Block* block) {
    const auto stream = reinterpret_cast<uintptr_t>(block->home->stream);
    return std::tuple(-block->home->kind, stream, block->size, block->pointer);
  };
  std::sort(found.begin(), found.end(), [&](const Block* a, const Block* b) {
    return key(a) < key(b);
  });
  return found;
}

// Takes an unused segment out of the books; it is then to be unmapped.
void* BlockPool::forget(Block* block, const PoolContext& context) {
  const auto segment = segments_.extract(block->pointer);
  recordEvent(
      PoolTraceEntry::SegmentFree,
      block->pointer,
      block->size,
      *block->home,
      context ? context : segment.mapped().context);
  block->home->remove(block);
  countSegment(block, -1);
  void* pointer = block->pointer;
  recycle(block);
  return pointer;
}

void BlockPool::countSegment(const Block* block, int change) {
  FreeBlocks& home = *block->home;
  const int64_t bytes = change * static_cast<int64_t>(block->size);
  (change > 0 ? counters_.others.maps : counters_.others.unmaps) += 1;
  home.segments += static_cast<size_t>(change);
  home.arena.segments += static_cast<size_t>(change);
  counters_.segment.change(home.kind, change);
  counters_.reservedBytes.change(home.kind, bytes);
  if (home.arena.id != PoolId{}) {
    reserved_[home.arena.id].counter.change(home.kind, bytes);
  }
  if (block->size >= config_.maxSplitSize) {
    auto& segments = counters_.others.oversizeSegments;
    change > 0 ? segments.add(1) : segments.subtract(1);
  }
}

void BlockPool::releaseCache(
    Lock& lock,
    PoolId pool,
    const PoolContext& context) {
  const bool all = pool == PoolId{};
  if (all && routes_.empty()) {
    waitForParked(lock, nullptr);
  } else if (const auto found = private_.find(pool);
             found != private_.end() && found->second.users == 0) {
    waitForParked(lock, &found->second);
  }
  const auto released = unusedSegments([&](const FreeBlocks& blocks) {
    const PoolArena& arena = blocks.arena;
    return &arena == &default_ ? all && routes_.empty()
                               : arena.users == 0 && (all || arena.id == pool);
  });
  if (!released.empty()) {
    device_.checkUsable();
  }
  std::vector<void*> segments;
  for (Block* block : released) {
    segments.push_back(forget(block, context));
  }
  forgetUnused();
  unmap(lock, segments);
}

// Caches and pools in which there is nothing any more.
void BlockPool::forgetUnused() {
  lastCache_ = nullptr;
  std::erase_if(default_.caches, [](const auto& item) {
    return item.second.small.segments + item.second.large.segments == 0;
  });
  std::erase_if(private_, [](const auto& item) {
    return item.second.users == 0 && item.second.segments == 0;
  });
}

// Gives an oversize segment back that is large enough, or else several. Returns
// whether that is enough for the request.
bool BlockPool::releaseEnough(
    Lock& lock,
    const FreeBlocks& home,
    const Request& request) {
  if (config_.maxSplitSize == SIZE_MAX) {
    return false;
  }
  const size_t wanted = std::max(request.size, config_.maxSplitSize);
  auto unused = unusedSegments(
      [&](const FreeBlocks& blocks) { return &blocks == &home; });
  const auto fits =
      std::find_if(unused.begin(), unused.end(), [&](const Block* block) {
        return block->size >= wanted;
      });
  size_t released = 0;
  std::vector<void*> segments;
  const auto release = [&](Block* block) {
    released += block->size;
    segments.push_back(forget(block, request.context));
  };
  if (fits != unused.end()) {
    release(*fits);
  }
  while (released < wanted && !unused.empty() &&
         unused.back()->size >= config_.maxSplitSize) {
    release(unused.back());
    unused.pop_back();
  }
  unmap(lock, segments);
  return released >= wanted;
}

// Gives large segments back that have not been used for longer than others,
// until the threshold is kept.
void BlockPool::collectGarbage(Lock& lock, const PoolContext& context) {
  const auto threshold = static_cast<size_t>(
      config_.garbageCollectionThreshold * static_cast<double>(limit_));
  const auto reserved = static_cast<size_t>(counters_.reservedBytes.current());
  if (reserved <= threshold) {
    return;
  }
  const size_t wanted = reserved - threshold;
  auto unused = unusedSegments([&](const FreeBlocks& blocks) {
    return &blocks.arena == &default_ && blocks.kind == PoolCounter::Large;
  });
  const auto age = [&](const Block* block) {
    return default_.searches[PoolCounter::Large] - block->freedAt;
  };
  size_t released = 0;
  std::vector<void*> segments;
  while (released < wanted && !unused.empty()) {
    uint64_t ages = 0;
    for (const Block* block : unused) {
      ages += age(block);
    }
    // Those of average age and more go; the oldest one always is.
    std::erase_if(unused, [&, count = unused.size()](Block* block) {
      if (released >= wanted || age(block) * count < ages) {
        return false;
      }
      released += block->size;
      segments.push_back(forget(block, context));
      return true;
    });
  }
  unmap(lock, segments);
}

} // namespace c10::openreg
