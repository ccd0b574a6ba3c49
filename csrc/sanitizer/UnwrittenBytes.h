// Memory that nobody has written to since it was allocated.
#pragma once

#include "sanitizer/Work.h"

#include <map>
#include <optional>

namespace c10::openreg::sanitizer {

/// A set of addresses, kept as ranges.
///
/// Threads: one at a time.
class UnwrittenBytes {
 public:
  void add(Range range);
  void remove(Range range);
  /// The first part of the range that is in the set; std::nullopt if there is none.
  std::optional<Range> findIn(Range range) const;
  bool containsAll(Range range) const;
  /// As a copy of bytes does: `to` has what `from` has, at the same places.
  void copy(Range from, uintptr_t to);

 private:
  std::map<uintptr_t, uintptr_t>
      ends_; // by where they begin; they do not touch
};

} // namespace c10::openreg::sanitizer
