#include "sanitizer/ShadowMemory.h"

#include <algorithm>

namespace c10::openreg::sanitizer {
namespace {

void addConflict(
    const Use& earlier,
    const Use& later,
    Range range,
    std::vector<Conflict>& conflicts) {
  for (Conflict& known : conflicts) {
    if (known.earlier.work == earlier.work && known.later.work == later.work &&
        known.earlier.writes == earlier.writes &&
        known.later.writes == later.writes) {
      known.range.begin = std::min(known.range.begin, range.begin);
      known.range.end = std::max(known.range.end, range.end);
      return;
    }
  }
  conflicts.push_back({earlier, later, range});
}

} // namespace

void ShadowMemory::cutAt(uintptr_t address) {
  auto after = cells_.upper_bound(address);
  if (after == cells_.begin()) {
    return;
  }
  auto& [begin, cell] = *std::prev(after);
  if (begin < address && address < cell.end) {
    cells_.emplace_hint(after, address, Cell{cell.end, cell.uses});
    cell.end = address;
  }
}

ShadowMemory::Cells::iterator ShadowMemory::cut(Range range) {
  cutAt(range.begin);
  cutAt(range.end);
  return cells_.lower_bound(range.begin);
}

// A writer that comes after this read comes after the reads before it as well, so they
// need not be kept.
void ShadowMemory::read(Cell& cell, const Use& use, const VectorClock& before) {
  std::erase_if(cell.uses, [&](const Use& other) {
    return !other.writes && other.isBefore(before);
  });
  cell.uses.push_back(use);
}

void ShadowMemory::use(
    Range range,
    const Use& use,
    const VectorClock& before,
    std::vector<Conflict>& conflicts) {
  // The usual case: the same bytes as last time.
  auto cell = cells_.find(range.begin);
  if (cell == cells_.end() || cell->second.end != range.end) {
    cell = cut(range);
  }
  uintptr_t next = range.begin;
  const auto first = cell;
  while (cell != cells_.end() && cell->first < range.end) {
    if (!use.writes && next < cell->first) {
      cells_.emplace_hint(cell, next, Cell{cell->first, {use}});
    }
    for (const Use& other : cell->second.uses) {
      if ((use.writes || other.writes) && !other.isBefore(before)) {
        addConflict(other, use, {cell->first, cell->second.end}, conflicts);
      }
    }
    if (!use.writes) {
      read(cell->second, use, before);
    }
    next = cell->second.end;
    ++cell;
  }
  if (use.writes) {
    if (first != cells_.end() && first->first == range.begin &&
        first->second.end == range.end) {
      first->second.uses.assign(1, use);
    } else {
      cell = cells_.erase(first, cell);
      cells_.emplace_hint(cell, range.begin, Cell{range.end, {use}});
    }
  } else if (next < range.end) {
    cells_.emplace_hint(cell, next, Cell{range.end, {use}});
  }
}

void ShadowMemory::copy(Range from, Range to) {
  const auto taken = cut(to);
  if (taken != cells_.end() && taken->first < to.end) {
    return;
  }
  const uintptr_t distance = to.begin - from.begin; // may wrap around
  for (auto cell = cut(from); cell != cells_.end() && cell->first < from.end;
       ++cell) {
    cells_.emplace(
        cell->first + distance,
        Cell{cell->second.end + distance, cell->second.uses});
  }
}

void ShadowMemory::forget(Range range) {
  const auto first = cut(range);
  cells_.erase(first, cells_.lower_bound(range.end));
}

void ShadowMemory::forget(Range range, Actor actor) {
  for (auto cell = cut(range);
       cell != cells_.end() && cell->first < range.end;) {
    std::erase_if(
        cell->second.uses, [&](const Use& use) { return use.actor == actor; });
    cell = cell->second.uses.empty() ? cells_.erase(cell) : std::next(cell);
  }
}

} // namespace c10::openreg::sanitizer
