// The current allocations, and those that were freed last.
#pragma once

#include "sanitizer/RedZone.h"
#include "sanitizer/Work.h"

#include <map>
#include <memory>
#include <vector>

namespace c10::openreg::sanitizer {

using PlacePtr = std::shared_ptr<const Place>;

/// A piece of memory that was allocated, and may have been freed.
struct Block {
  Range range; ///< as long as was asked for
  const void* stream =
      nullptr; ///< that it belongs to; nullptr for pinned memory
  uint64_t allocated = 0; ///< the number of the call
  PlacePtr allocatedAt = {};
  bool isFree = false;
  PlacePtr freedAt = {};
  std::vector<const void*> recorded = {}; ///< streams noted by record_stream()
  RedZonePtr zone = {}; ///< behind its end; nullptr if it has none
  bool isZoneFilled = false; ///< or will be, before its next use
};

/// Blocks by address. A freed one is known until its memory is handed out again.
///
/// Threads: one at a time.
class Blocks {
 public:
  void add(Block block);
  /// The block that begins there; nullptr if none does.
  Block* find(const void* pointer);
  /// The block that an address lies in, or that is the nearest before it within
  /// `slack` bytes; nullptr if there is none.
  const Block* around(uintptr_t address, size_t slack = 0) const;
  /// Forgets the blocks that overlap the range.
  void forget(Range range);

  template <class Visit>
  void forEach(Visit visit) const {
    for (const auto& [begin, block] : blocks_) {
      visit(block);
    }
  }

 private:
  std::map<uintptr_t, Block> blocks_;
};

} // namespace c10::openreg::sanitizer
