// The blocks of the block pool, by address.
#pragma once

#include "runtime/pool/Block.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace c10::openreg {

/// A flat hash table of blocks by where they start. The pool's lock guards it.
class BlockTable {
 public:
  BlockTable() : slots_(64) {}

  /// The block that starts there, or nullptr.
  PoolBlock* find(const void* pointer) const {
    for (size_t i = placeOf(pointer);; i = next(i)) {
      if (slots_[i].pointer == pointer) {
        return slots_[i].block;
      }
      if (!slots_[i].pointer) {
        return nullptr;
      }
    }
  }
  void insert(PoolBlock* block);
  void erase(PoolBlock* block);

 private:
  struct Slot {
    void* pointer = nullptr;
    PoolBlock* block = nullptr;
  };

  // Addresses differ above the unit of sizes; the product mixes them upwards.
  size_t placeOf(const void* pointer) const {
    const auto units = reinterpret_cast<uintptr_t>(pointer) / kSmallestBlock;
    return (units * 0x9E3779B97F4A7C15u) >> shift_;
  }
  size_t next(size_t place) const {
    return (place + 1) & (slots_.size() - 1);
  }
  void grow();

  std::vector<Slot> slots_; // a power of two, at most half of them in use
  int shift_ = 64 - 6;
  size_t inUse_ = 0;
};

} // namespace c10::openreg
