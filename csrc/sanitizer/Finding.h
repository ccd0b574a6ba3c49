// What the sanitizer tells.
#pragma once

#include "sanitizer/Blocks.h"
#include "sanitizer/Work.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace c10::openreg::sanitizer {

/// What is looked for: bits of a number.
enum Checks : unsigned {
  kRace = 1,
  kMemory = 2,
  kInit = 4,
  kLeak = 8,
};

/// One of the two pieces of work that a finding is about.
struct Culprit {
  WorkPtr work;
  bool writes = false;
};

struct Finding {
  enum Kind : uint8_t {
    Race, ///< two uses without an order
    Reuse, ///< the same, and the memory was freed in between
    UseAfterFree,
    OutOfBounds,
    Overwritten, ///< while queued work was to read it
    Uninitialized,
  };
  Kind kind;
  Range range;
  std::optional<Culprit> earlier;
  std::optional<Culprit> later; ///< by the order of the calls
  std::optional<Block> block; ///< that the range lies in, if it is known
};

} // namespace c10::openreg::sanitizer
