#include "runtime/OpenRegFreeBlocks.h"

#include <utility>

namespace c10::openreg {

// --- trees -------------------------------------------------------------------

namespace {

bool isBefore(const PoolBlock* a, const PoolBlock* b) {
  return a->size != b->size ? a->size < b->size : a->pointer < b->pointer;
}

// Who is above whom in a tree.
uint64_t rank(const PoolBlock* block) {
  return reinterpret_cast<uintptr_t>(block->pointer) * 0x9E3779B97F4A7C15u;
}

} // namespace

void FreeBlocks::insertIntoTree(PoolBlock** tree, PoolBlock* block) {
  while (*tree && rank(*tree) > rank(block)) {
    tree = isBefore(*tree, block) ? &(*tree)->right : &(*tree)->left;
  }
  // What is there goes below the block, to its two sides.
  PoolBlock* rest = std::exchange(*tree, block);
  PoolBlock** left = &block->left;
  PoolBlock** right = &block->right;
  while (rest) {
    if (isBefore(rest, block)) {
      *left = rest;
      left = &rest->right;
      rest = rest->right;
    } else {
      *right = rest;
      right = &rest->left;
      rest = rest->left;
    }
  }
  *left = *right = nullptr;
}

void FreeBlocks::removeFromTree(PoolBlock** tree, PoolBlock* block) {
  while (*tree != block) {
    tree = isBefore(*tree, block) ? &(*tree)->right : &(*tree)->left;
  }
  // Its two sides become one.
  PoolBlock* left = block->left;
  PoolBlock* right = block->right;
  while (left && right) {
    if (rank(left) > rank(right)) {
      *tree = left;
      tree = &left->right;
      left = left->right;
    } else {
      *tree = right;
      tree = &right->left;
      right = right->left;
    }
  }
  *tree = left ? left : right;
}

// --- BlockTable --------------------------------------------------------------

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
