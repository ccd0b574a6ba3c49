#include "runtime/pool/BlockTable.h"

namespace c10::openreg {

void BlockTable::insert(PoolBlock* block) {
  if (2 * (inUse_ + 1) > slots_.size()) {
    grow();
  }
  size_t place = placeOf(block->pointer);
  while (slots_[place].pointer) {
    place = next(place);
  }
  slots_[place] = {block->pointer, block};
  ++inUse_;
}

void BlockTable::erase(PoolBlock* block) {
  size_t hole = placeOf(block->pointer);
  while (slots_[hole].block != block) {
    hole = next(hole);
  }
  // Those after the hole that would not be found any more move into it.
  for (size_t i = next(hole); slots_[i].pointer; i = next(i)) {
    const size_t mask = slots_.size() - 1;
    const size_t wanted = placeOf(slots_[i].pointer);
    if (((i - wanted) & mask) >= ((i - hole) & mask)) {
      slots_[hole] = slots_[i];
      hole = i;
    }
  }
  slots_[hole] = {};
  --inUse_;
}

void BlockTable::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  --shift_;
  inUse_ = 0;
  for (const Slot& slot : old) {
    if (slot.pointer) {
      insert(slot.block);
    }
  }
}

} // namespace c10::openreg
