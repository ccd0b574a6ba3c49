#include "sanitizer/Blocks.h"

#include <iterator>
#include <utility>

namespace c10::openreg::sanitizer {

void Blocks::add(Block block) {
  forget(block.range);
  const uintptr_t begin = block.range.begin;
  blocks_.emplace(begin, std::move(block));
}

Block* Blocks::find(const void* pointer) {
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
  return found == blocks_.end() ? nullptr : &found->second;
}

const Block* Blocks::around(uintptr_t address, size_t slack) const {
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) {
    return nullptr;
  }
  const Block& block = std::prev(after)->second;
  return address < block.range.end + slack ? &block : nullptr;
}

void Blocks::forget(Range range) {
  auto block = blocks_.lower_bound(range.begin);
  if (block != blocks_.begin() &&
      std::prev(block)->second.range.end > range.begin) {
    --block;
  }
  while (block != blocks_.end() && block->first < range.end) {
    block = blocks_.erase(block);
  }
}

} // namespace c10::openreg::sanitizer
