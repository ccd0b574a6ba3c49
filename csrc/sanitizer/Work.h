// Pieces of work, and what they touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace c10::openreg::sanitizer {

/// Addresses from `begin` up to `end`.
struct Range {
  uintptr_t begin;
  uintptr_t end;

  size_t size() const {
    return end - begin;
  }
  bool overlaps(const Range& other) const {
    return begin < other.end && other.begin < end;
  }
};

inline Range rangeOf(const void* pointer, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  return {begin, begin + bytes};
}

/// Where in the program something happens: the stacks, which only the reports read.
class Place {
 public:
  virtual ~Place() = default;
};

/// Something that was launched, or that the host did.
struct Work {
  std::string name;
  const void* stream; ///< nullptr: the host
  int device; ///< of the stream; -1: the host
  uint64_t number; ///< of all works and allocations, in the order of the calls
  std::shared_ptr<const Place> place;
  /// Where the graph was replayed that this is a node of; else nullptr.
  std::shared_ptr<const Place> replayed;
};
using WorkPtr = std::shared_ptr<const Work>;

struct Access {
  Range range;
  bool writes;
};

/// An access of any memory, as it was told.
struct MemoryUse {
  Range range;
  bool writes;
  bool onDevice;
  /// The bytes up to the end of what is written, if that is in more ranges than are told;
  /// else 0.
  size_t span = 0;
};

} // namespace c10::openreg::sanitizer
