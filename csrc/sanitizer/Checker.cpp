#include "sanitizer/Checker.h"

#include <algorithm>
#include <utility>

namespace c10::openreg::sanitizer {
namespace {

// What lies between two blocks of the allocator at most.
constexpr size_t kSlack = 512;

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
  races.launch(work, accesses, conflicts);
  addRaces(conflicts, findings);
  if (looksFor(kMemory)) {
    checkMemory(work, accesses, findings);
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
  }
}

// --- findings -----------------------------------------------------------------

std::optional<Block> Checker::blockAround(uintptr_t address) const {
  const Block* block = device_.around(address, kSlack);
  block = block ? block : pinned_.around(address);
  return block ? std::optional(*block) : std::nullopt;
}

void Checker::addRaces(const Conflicts& conflicts, Findings& findings) const {
  if (!looksFor(kRace)) {
    return;
  }
  for (const auto& [earlier, later, range] : conflicts) {
    auto block = blockAround(range.begin);
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

void Checker::unpin(const void* pointer) {
  if (const Block* block = pinned_.find(pointer)) {
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
