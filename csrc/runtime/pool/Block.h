// A block of the block pool.
#pragma once

#include "runtime/pool/PoolTypes.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace c10::openreg {

class FreeBlocks;

/// The unit of sizes.
inline constexpr size_t kSmallestBlock = 512;

/// A piece of a segment. The pool's lock guards it.
struct alignas(64) PoolBlock {
  /// Of a segment that grows: Unmapped has addresses but no memory, and the memory of
  /// one that is Leaving is being given back.
  enum State : uint8_t { Free, Allocated, Parked, Unmapped, Leaving };

  char* pointer = nullptr;
  size_t size = 0;
  size_t requested = 0;
  FreeBlocks* home = nullptr; // where it goes when it is free
  PoolBlock* before = nullptr; // neighbours in the segment
  PoolBlock* after = nullptr;
  PoolBlock* left = nullptr; // below it in a tree of free blocks
  PoolBlock* right = nullptr;

  State state = Free;
  uint16_t sizeClass = 0; // while free
  bool listed = false; // in the table of addresses
  bool grows = false; // its segment does
  int pendingEvents = 0; // while parked: events that hold it back
  std::vector<void*> usedBy; // while allocated: other streams noted for it
  PoolContext context; // of its allocation
  uint64_t freedAt = 0; // by the searches of its arena

  bool hasMemory() const {
    return state < Unmapped;
  }
  bool isWholeSegment() const {
    return !before && !after;
  }
};

} // namespace c10::openreg
