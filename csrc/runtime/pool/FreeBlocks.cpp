#include "runtime/pool/FreeBlocks.h"

#include <utility>

namespace c10::openreg {
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

} // namespace c10::openreg
