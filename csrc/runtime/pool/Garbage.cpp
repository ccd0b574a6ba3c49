#include "runtime/pool/Garbage.h"

#include <algorithm>

namespace c10::openreg {

size_t bytesOf(const std::vector<PoolBlock*>& blocks) {
  size_t bytes = 0;
  for (const PoolBlock* block : blocks) {
    bytes += block->size;
  }
  return bytes;
}

std::vector<PoolBlock*> chooseOversize(
    const std::vector<PoolBlock*>& unused,
    size_t wanted,
    size_t oversize) {
  const auto fits =
      std::find_if(unused.begin(), unused.end(), [&](const PoolBlock* block) {
        return block->size >= wanted;
      });
  if (fits != unused.end()) {
    return {*fits};
  }
  std::vector<PoolBlock*> chosen;
  size_t bytes = 0;
  for (auto block = unused.rbegin();
       block != unused.rend() && bytes < wanted && (*block)->size >= oversize;
       ++block) {
    chosen.push_back(*block);
    bytes += (*block)->size;
  }
  return chosen;
}

std::vector<PoolBlock*> chooseOld(
    std::vector<PoolBlock*> unused,
    size_t wanted,
    uint64_t now) {
  const auto age = [&](const PoolBlock* block) { return now - block->freedAt; };
  std::vector<PoolBlock*> chosen;
  size_t bytes = 0;
  while (bytes < wanted && !unused.empty()) {
    uint64_t ages = 0;
    for (const PoolBlock* block : unused) {
      ages += age(block);
    }
    // Those of average age and more go; the oldest one always is.
    std::erase_if(unused, [&, count = unused.size()](PoolBlock* block) {
      if (bytes >= wanted || age(block) * count < ages) {
        return false;
      }
      bytes += block->size;
      chosen.push_back(block);
      return true;
    });
  }
  return chosen;
}

} // namespace c10::openreg
