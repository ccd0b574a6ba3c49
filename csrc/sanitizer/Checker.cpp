#include "sanitizer/Checker.h"

#include <algorithm>
#include <utility>

namespace c10::openreg::sanitizer {
namespace {

// What lies between two blocks of the allocator at most.
constexpr size_t kSlack = 1024;

} // namespace

// --- work ---------------------------------------------------------------------

std::vector<Access> Checker::trackedParts(
    std::span<const MemoryUse> uses) const {
  std::vector<Access> parts;
  for (const MemoryUse& use : uses) {
    if (use.onDevice || pinned_.around(use.range.begin)) {
      parts.push_back({use.range, use.writes});
    }
  }
  return parts;
}

bool Checker::tracks(std::span<const MemoryUse> uses) const {
  return !trackedParts(uses).empty();
}

void Checker::launch(
    const WorkPtr& work,
    std::span<const MemoryUse> uses,
    Findings& findings) {
  const auto accesses = trackedParts(uses);
  Conflicts conflicts;
  const Tick tick = races.launch(work, accesses, conflicts);
  addRaces(conflicts, findings);
  if (looksFor(kMemory)) {
    checkMemory(work, accesses, findings);
    settleReads(uses, findings);
    addReads(work, tick, uses);
  }
  if (looksFor(kInit)) {
    if (const auto range = init_.run(work->name, uses)) {
      findings.push_back(
          {Finding::Uninitialized,
           *range,
           {},
           Culprit{work, false},
           blockAround(range->begin)});
    }
  }
}

void Checker::actOnHost(
    const WorkPtr& work,
    std::span<const MemoryUse> uses,
    Findings& findings) {
  settleReads(uses, findings);
  Conflicts conflicts;
  races.actOnHost(work, trackedParts(uses), conflicts);
  addRaces(conflicts, findings);
}

void Checker::replay(
    const void* graph,
    const WorkPtr& work,
    Findings& findings) {
  Conflicts conflicts;
  races.launchGraph(graph, work, conflicts);
  addRaces(conflicts, findings);
  for (const auto& [access, node] : races.nodesOf(graph)) {
    if (access.writes) {
      init_.write(access.range);
    }
  }
}

void Checker::addResult(
    const WorkPtr& work,
    const void* pointer,
    Findings& findings) {
  if (const Block* block = device_.find(pointer)) {
    const Access access{block->range, true};
    Conflicts conflicts;
    races.launch(work, {&access, 1}, conflicts);
    addRaces(conflicts, findings);
    init_.write(block->range);
    if (const auto damage =
            block->zone ? block->zone->takeDamage() : std::nullopt) {
      findings.push_back(
          {Finding::OutOfBounds, *damage, {}, Culprit{work, true}, *block});
    }
  }
}

// --- findings -----------------------------------------------------------------

std::optional<Block> Checker::blockAround(uintptr_t address) const {
  const Block* block = device_.around(address, kSlack);
  block = block ? block : pinned_.around(address);
  return block ? std::optional(*block) : std::nullopt;
}

void Checker::addRaces(const Conflicts& conflicts, Findings& findings) const {
  for (const auto& [earlier, later, range] : conflicts) {
    auto block = blockAround(range.begin);
    if (!looksFor(kRace)) {
      if (looksFor(kMemory) && !later.work->stream && later.writes) {
        findings.push_back(
            {Finding::Overwritten,
             range,
             Culprit{earlier.work, earlier.writes},
             Culprit{later.work, true},
             std::move(block)});
      }
      continue;
    }
    const bool reused =
        block && block->stream && earlier.work->number < block->allocated;
    findings.push_back(
        {reused ? Finding::Reuse : Finding::Race,
         range,
         Culprit{earlier.work, earlier.writes},
         Culprit{later.work, later.writes},
         std::move(block)});
  }
}

// Memory that is in no block is not the allocator's: nothing is known of it.
void Checker::checkMemory(
    const WorkPtr& work,
    std::span<const Access> accesses,
    Findings& findings) const {
  for (const auto& [range, writes] : accesses) {
    const Block* block = device_.around(range.begin, kSlack);
    if (!block) {
      continue;
    }
    if (block->isFree && range.begin < block->range.end) {
      findings.push_back(
          {Finding::UseAfterFree, range, {}, Culprit{work, writes}, *block});
    } else if (!block->isFree && range.end > block->range.end) {
      const Range outside{std::max(range.begin, block->range.end), range.end};
      findings.push_back(
          {Finding::OutOfBounds, outside, {}, Culprit{work, writes}, *block});
    }
  }
}

// --- queued reads -------------------------------------------------------------

// What a capture reads it reads at each replay: the memory may change in between.
void Checker::addReads(
    const WorkPtr& work,
    Tick tick,
    std::span<const MemoryUse> uses) {
  if (races.isCaptured(work->stream)) {
    return;
  }
  for (const MemoryUse& use : uses) {
    if (!use.writes && !use.onDevice && pinned_.around(use.range.begin)) {
      reads_.add(work, tick, use.range);
    }
  }
}

void Checker::addOverwritten(
    const std::vector<QueuedReads::Read>& reads,
    Findings& findings) const {
  for (const auto& read : reads) {
    findings.push_back(
        {Finding::Overwritten,
         read.range,
         Culprit{read.work, false},
         {},
         blockAround(read.range.begin)});
  }
}

void Checker::settleReads(Findings& findings) {
  addOverwritten(
      reads_.settle([&](const QueuedReads::Read& read) {
        return races.hostIsAfter(read.work->stream, read.tick);
      }),
      findings);
}

void Checker::settleReads(std::span<const MemoryUse> uses, Findings& findings) {
  for (const MemoryUse& use : uses) {
    if (use.writes && !use.onDevice) {
      addOverwritten(
          reads_.settle([&](const QueuedReads::Read& read) {
            return read.range.overlaps(use.range);
          }),
          findings);
    }
  }
}

// --- red zones ----------------------------------------------------------------

std::vector<WatchedZone> Checker::zonesBeside(
    std::span<const MemoryUse> uses) const {
  std::vector<WatchedZone> zones;
  const Block* last = nullptr;
  for (const MemoryUse& use : uses) {
    const Block* block = device_.around(use.range.begin);
    if (!block || block->isFree || block == last) {
      continue;
    }
    last = block; // a view may have many ranges
    if (block->zone) {
      zones.push_back({block->zone, *block});
    }
    const Block* before = device_.around(block->range.begin - 1, kSlack);
    if (before && before->zone && !before->isFree &&
        before->zone->range().end == block->range.begin) {
      zones.push_back({before->zone, *block});
    }
  }
  return zones;
}

std::vector<RedZonePtr> Checker::zonesToFill(std::span<const MemoryUse> uses) {
  std::vector<RedZonePtr> zones;
  for (const MemoryUse& use : uses) {
    const Block* around = device_.around(use.range.begin);
    Block* block = around
        ? device_.find(reinterpret_cast<const void*>(around->range.begin))
        : nullptr;
    if (block && block->zone && !block->isFree && !block->isZoneFilled) {
      block->isZoneFilled = true;
      zones.push_back(block->zone);
    }
  }
  return zones;
}

void Checker::fillZone(const void* pointer) {
  Block* block = device_.find(pointer);
  if (block && block->zone) {
    block->isZoneFilled = true;
    block->zone->fill();
  }
}

// --- memory -------------------------------------------------------------------

void Checker::map(Range range) {
  races.forget(range);
  device_.forget(range);
}

void Checker::allocate(Block block) {
  if (looksFor(kInit)) {
    init_.allocate(block.range);
  }
  block.allocated = nextNumber();
  // The allocator would have handed out memory that it keeps back now.
  if (const auto freed = freed_.take(block, device_)) {
    races.inherit(block.range, {*freed, *freed + block.range.size()});
  }
  device_.add(std::move(block));
}

// The allocator waits for the streams that were noted before it hands out the memory
// again, and for no others.
void Checker::free(const void* pointer, PlacePtr place) {
  if (Block* block = device_.find(pointer)) {
    for (const void* stream : block->recorded) {
      races.forget(block->range, stream);
    }
    init_.free(block->range);
    block->isFree = true;
    block->freedAt = std::move(place);
    if (block->zone) {
      block->zone->retire();
      freed_.add(*block);
    }
  }
}

void Checker::recordStream(const void* pointer, const void* stream) {
  if (Block* block = device_.find(pointer)) {
    block->recorded.push_back(stream);
  }
}

// Pinned memory is handed out again when the copies have run that used it.
void Checker::pin(Block block) {
  races.forget(block.range);
  block.allocated = nextNumber();
  pinned_.add(std::move(block));
}

void Checker::unpin(const void* pointer, Findings& findings) {
  if (const Block* block = pinned_.find(pointer)) {
    const MemoryUse whole{block->range, true, false};
    settleReads({&whole, 1}, findings);
    pinned_.forget(block->range);
  }
}

size_t Checker::bytesBehind(const void* pointer) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const Block* block = device_.around(address);
  return block ? block->range.end - address : 0;
}

std::vector<Block> Checker::liveBlocks() const {
  std::vector<Block> live;
  for (const Blocks* blocks : {&device_, &pinned_}) {
    blocks->forEach([&](const Block& block) {
      if (!block.isFree) {
        live.push_back(block);
      }
    });
  }
  return live;
}

} // namespace c10::openreg::sanitizer
