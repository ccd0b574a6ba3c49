// Freed blocks that are not handed out again yet.
#pragma once

#include "runtime/pool/Block.h"

#include <algorithm>
#include <cstddef>
#include <deque>

namespace c10::openreg {

/// Keeps the blocks that were freed last, so that a use of them afterwards does not
/// touch another block's memory. Off at first. The pool's lock guards it.
class Quarantine {
 public:
  bool isOn() const {
    return isOn_;
  }
  void turn(bool on) {
    isOn_ = on;
  }
  bool empty() const {
    return blocks_.empty();
  }

  void add(PoolBlock* block) {
    block->state = PoolBlock::Parked;
    bytes_ += block->size;
    blocks_.push_back(block);
  }

  /// Takes out the block that has been there longest.
  PoolBlock* takeOldest() {
    PoolBlock* block = blocks_.front();
    blocks_.pop_front();
    bytes_ -= block->size;
    return block;
  }

  /// Whether it has more than is worth keeping beside so many allocated bytes: half of
  /// them, so that a program needs no more than one and a half times its memory.
  bool isFull(size_t allocated) const {
    constexpr size_t kLeast = 1 << 20;
    return bytes_ > std::max(kLeast, allocated / 2);
  }

 private:
  bool isOn_ = false;
  size_t bytes_ = 0;
  std::deque<PoolBlock*> blocks_; // oldest first
};

} // namespace c10::openreg
