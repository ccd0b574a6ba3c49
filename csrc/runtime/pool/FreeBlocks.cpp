#include "runtime/pool/FreeBlocks.h"

#include <utility>
#include <vector>

namespace c10::openreg {
namespace {

bool isBefore(const PoolBlock* a, const PoolBlock* b) {
  return a->size != b->size ? a->size < b->size : a->pointer < b->pointer;
}

// Who is above whom in a tree.
uint64_t rank(const PoolBlock* block) {
  return reinterpret_cast<uintptr_t>(block->pointer) * 0x9E3779B97F4A7C15u;
}

/// What the block could become if memory were mapped after it.
size_t reach(const PoolBlock* block) {
  const PoolBlock* after = block->after;
  return block->size +
      (after && after->state == PoolBlock::Unmapped ? after->size : 0);
}

} // namespace

PoolBlock* FreeBlocks::takeBesideGrowing(
    size_t size,
    size_t most,
    bool usesGrowing) {
  // Blocks that are passed over come back in the end, so that take() finds the next.
  std::vector<PoolBlock*> passed;
  PoolBlock* chosen = take(size, most);
  while (chosen && chosen->grows) {
    PoolBlock* const next = take(size, most);
    const bool isBetter = next && reach(next) < reach(chosen);
    if (usesGrowing && !isBetter) {
      if (next) {
        passed.push_back(next);
      }
      break;
    }
    passed.push_back(chosen);
    chosen = next;
  }
  for (PoolBlock* block : passed) {
    insert(block);
  }
  return chosen;
}

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

} // namespace c10::openreg
