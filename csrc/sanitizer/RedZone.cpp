#include "sanitizer/RedZone.h"

#include <algorithm>
#include <cstring>

namespace c10::openreg::sanitizer {
namespace {

// As a number of any type it is far from what programs compute.
constexpr unsigned char kPattern = 0xA7;

bool isDamaged(unsigned char byte) {
  return byte != kPattern;
}

} // namespace

void RedZone::fill() {
  std::memset(bytes_, kPattern, range_.end - range_.begin);
  isFilled_.store(true, std::memory_order_release);
}

std::optional<Range> RedZone::takeDamage() {
  if (!isFilled_.load(std::memory_order_acquire)) {
    return std::nullopt;
  }
  unsigned char* const end = bytes_ + (range_.end - range_.begin);
  unsigned char* const first = std::find_if(bytes_, end, isDamaged);
  if (first == end) {
    return std::nullopt;
  }
  unsigned char* last = end;
  while (!isDamaged(last[-1])) {
    --last;
  }
  const Range damage{
      range_.begin + static_cast<uintptr_t>(first - bytes_),
      range_.begin + static_cast<uintptr_t>(last - bytes_)};
  std::memset(first, kPattern, damage.end - damage.begin);
  return damage;
}

} // namespace c10::openreg::sanitizer
