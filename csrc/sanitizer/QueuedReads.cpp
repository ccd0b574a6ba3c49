#include "sanitizer/QueuedReads.h"

#include <cstring>

namespace c10::openreg::sanitizer {

void QueuedReads::add(const WorkPtr& work, Tick tick, Range range) {
  if (reads_.size() == kMost) {
    reads_.pop_front();
  }
  reads_.push_back({work, tick, range, digestOf(range)});
}

uint64_t QueuedReads::digestOf(Range range) {
  constexpr uint64_t kPrime = 0x9E3779B97F4A7C15;
  const auto* bytes = reinterpret_cast<const unsigned char*>(range.begin);
  size_t left = range.end - range.begin;
  uint64_t digest = left;
  while (left != 0) {
    uint64_t word = 0;
    const size_t part = left < sizeof(word) ? left : sizeof(word);
    std::memcpy(&word, bytes, part);
    digest = (digest ^ word) * kPrime;
    digest ^= digest >> 29;
    bytes += part;
    left -= part;
  }
  return digest;
}

} // namespace c10::openreg::sanitizer
