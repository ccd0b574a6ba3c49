#include "sanitizer/UnwrittenBytes.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace c10::openreg::sanitizer {

void UnwrittenBytes::add(Range range) {
  if (range.begin >= range.end) {
    return;
  }
  remove(range);
  auto after = ends_.lower_bound(range.end);
  if (after != ends_.end() && after->first == range.end) {
    range.end = after->second;
    after = ends_.erase(after);
  }
  if (after != ends_.begin() && std::prev(after)->second == range.begin) {
    std::prev(after)->second = range.end;
  } else {
    ends_.emplace_hint(after, range.begin, range.end);
  }
}

void UnwrittenBytes::remove(Range range) {
  auto found = ends_.upper_bound(range.begin);
  if (found != ends_.begin()) {
    --found;
  }
  while (found != ends_.end() && found->first < range.end) {
    const Range old{found->first, found->second};
    if (!old.overlaps(range)) {
      ++found;
      continue;
    }
    found = ends_.erase(found);
    if (old.begin < range.begin) {
      ends_.emplace_hint(found, old.begin, range.begin);
    }
    if (old.end > range.end) {
      found = ends_.emplace_hint(found, range.end, old.end);
    }
  }
}

std::optional<Range> UnwrittenBytes::findIn(Range range) const {
  if (range.begin >= range.end) {
    return std::nullopt;
  }
  auto found = ends_.upper_bound(range.begin);
  if (found != ends_.begin() && std::prev(found)->second > range.begin) {
    --found;
  }
  if (found == ends_.end() || found->first >= range.end) {
    return std::nullopt;
  }
  return Range{
      std::max(found->first, range.begin), std::min(found->second, range.end)};
}

bool UnwrittenBytes::containsAll(Range range) const {
  const auto found = findIn(range);
  return found && found->begin == range.begin && found->end == range.end;
}

void UnwrittenBytes::copy(Range from, uintptr_t to) {
  std::vector<Range> parts;
  for (auto part = findIn(from); part; part = findIn({part->end, from.end})) {
    parts.push_back(*part);
  }
  remove({to, to + (from.end - from.begin)});
  for (const Range& part : parts) {
    add({to + (part.begin - from.begin), to + (part.end - from.begin)});
  }
}

} // namespace c10::openreg::sanitizer
