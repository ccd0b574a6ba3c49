// All that is known of a program, and what is wrong with it.
#pragma once

#include "sanitizer/Blocks.h"
#include "sanitizer/Finding.h"
#include "sanitizer/FreedBlocks.h"
#include "sanitizer/InitChecker.h"
#include "sanitizer/QueuedReads.h"
#include "sanitizer/RaceDetector.h"

#include <span>
#include <vector>

namespace c10::openreg::sanitizer {

using Findings = std::vector<Finding>;

/// A red zone that work may write to, and the block of the work that it lies beside.
struct WatchedZone {
  RedZonePtr zone;
  Block block;
};

/// Gives each piece of work to the checks that are on. What orders work goes to `races`
/// straight away.
///
/// Threads: one at a time.
class Checker {
 public:
  /// `checks` are bits of Checks.
  explicit Checker(unsigned checks = 0) : checks_(checks) {}

  RaceDetector races;

  uint64_t nextNumber() {
    return ++calls_;
  }

  // --- work ---
  void launch(
      const WorkPtr& work,
      std::span<const MemoryUse> uses,
      Findings& findings);
  void actOnHost(
      const WorkPtr& work,
      std::span<const MemoryUse> uses,
      Findings& findings);
  void replay(const void* graph, const WorkPtr& work, Findings& findings);
  /// Work that was launched has written a block that it allocated itself.
  void addResult(const WorkPtr& work, const void* block, Findings& findings);
  /// Whether some of the memory is the device's, or pinned: other memory of the host is
  /// not in use any more when a call returns.
  bool tracks(std::span<const MemoryUse> uses) const;
  /// The host has waited for something: checks the memory that queued work was to read.
  void settleReads(Findings& findings);
  /// The zones behind the blocks that work uses, and those right before them.
  std::vector<WatchedZone> zonesBeside(std::span<const MemoryUse> uses) const;
  /// Those of the blocks that work uses which nobody has filled yet; it is to be done.
  std::vector<RedZonePtr> zonesToFill(std::span<const MemoryUse> uses);
  /// Fills the zone of a block that a kernel uses now.
  void fillZone(const void* block);

  // --- memory ---
  /// Addresses that are new: no earlier work uses them.
  void map(Range range);
  void allocate(Block block);
  void free(const void* pointer, PlacePtr place);
  void recordStream(const void* pointer, const void* stream);
  void pin(Block block);
  void unpin(const void* pointer, Findings& findings);
  /// From an address to the end of its allocation; 0 if it is in none.
  size_t bytesBehind(const void* pointer) const;
  std::vector<Block> liveBlocks() const;

 private:
  bool looksFor(unsigned checks) const {
    return (checks_ & checks) != 0;
  }
  std::vector<Access> trackedParts(std::span<const MemoryUse> uses) const;
  std::optional<Block> blockAround(uintptr_t address) const;
  void addRaces(const Conflicts& conflicts, Findings& findings) const;
  void addReads(
      const WorkPtr& work,
      Tick tick,
      std::span<const MemoryUse> uses);
  /// Looks at queued reads of memory that is written to now.
  void settleReads(std::span<const MemoryUse> uses, Findings& findings);
  void addOverwritten(
      const std::vector<QueuedReads::Read>& reads,
      Findings& findings) const;
  void checkMemory(
      const WorkPtr& work,
      std::span<const Access> accesses,
      Findings& findings) const;

  unsigned checks_;
  InitChecker init_;
  QueuedReads reads_;
  Blocks device_;
  FreedBlocks freed_;
  Blocks pinned_;
  uint64_t calls_ = 0;
};

} // namespace c10::openreg::sanitizer
