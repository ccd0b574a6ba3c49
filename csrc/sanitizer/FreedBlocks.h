// Freed memory that the allocator keeps back while the sanitizer looks at memory.
#pragma once

#include "sanitizer/Blocks.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace c10::openreg::sanitizer {

/// Tells which freed memory a new block would have, if nothing were kept back: the
/// smallest of its stream that is large enough, and of those the last one.
///
/// Threads: one at a time.
class FreedBlocks {
 public:
  void add(const Block& block) {
    bySize_[{block.stream, block.range.size()}].push_back(
        {block.range.begin, block.allocated});
  }

  /// Where that memory begins; it is not given to another block. `blocks` knows which
  /// ones are still kept.
  std::optional<uintptr_t> take(const Block& block, Blocks& blocks) {
    auto fit = bySize_.lower_bound({block.stream, block.range.size()});
    while (fit != bySize_.end() && fit->first.first == block.stream) {
      while (!fit->second.empty()) {
        const auto [begin, allocated] = fit->second.back();
        fit->second.pop_back();
        const Block* freed = blocks.find(reinterpret_cast<const void*>(begin));
        if (freed && freed->isFree && freed->allocated == allocated) {
          return begin;
        }
      }
      fit = bySize_.erase(fit);
    }
    return std::nullopt;
  }

 private:
  struct FreedBlock {
    uintptr_t begin;
    uint64_t allocated; // the number of its allocation
  };
  std::map<std::pair<const void*, size_t>, std::vector<FreedBlock>> bySize_;
};

} // namespace c10::openreg::sanitizer
