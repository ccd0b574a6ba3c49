// Who used which bytes last.
#pragma once

#include "sanitizer/VectorClock.h"
#include "sanitizer/Work.h"

#include <map>
#include <vector>

namespace c10::openreg::sanitizer {

/// A use of memory, for as long as a later one may have to come after it.
struct Use {
  Actor actor;
  Tick tick;
  bool writes;
  WorkPtr work;

  bool isBefore(const VectorClock& clock) const {
    return tick <= clock[actor];
  }
};

/// Two uses of the same bytes, one of which writes, in no order.
struct Conflict {
  Use earlier; ///< by the order of the calls
  Use later;
  Range range;
};

/// For each byte its last writer and those who have read it since, kept by ranges that
/// have them in common.
///
/// Threads: one at a time.
class ShadowMemory {
 public:
  /// Notes a use that comes after all that `before` has, and adds those that it does not
  /// come after, but should, to `conflicts`: one for each pair of works.
  void use(
      Range range,
      const Use& use,
      const VectorClock& before,
      std::vector<Conflict>& conflicts);

  /// Notes the uses of a range for another one as well, if that has none.
  void copy(Range from, Range to);
  /// Forgets all uses of a range, or those of one actor.
  void forget(Range range);
  void forget(Range range, Actor actor);

  size_t size() const {
    return cells_.size();
  }

 private:
  struct Cell {
    uintptr_t end;
    std::vector<Use> uses; // the writer first, if there is one
  };
  using Cells = std::map<uintptr_t, Cell>;

  /// Lets a cell begin at the address, if one has it inside.
  void cutAt(uintptr_t address);
  /// The first cell that begins in the range or after it, the cells being cut at its
  /// ends.
  Cells::iterator cut(Range range);
  static void read(Cell& cell, const Use& use, const VectorClock& before);

  Cells cells_; // by their first address; they do not overlap
};

} // namespace c10::openreg::sanitizer
