#include "arena.h"

#include <algorithm>
#include <iterator>

namespace openreg {

Arena::Arena(size_t space, size_t capacity)
    : capacity_(capacity), ranges_(&nodes_), freeBySize_(&nodes_) {
  addFree(ranges_.emplace(0, Range{.bytes = space}).first);
}

std::optional<size_t> Arena::allocate(size_t bytes) {
  if (bytes > capacity_ - used_) {
    return std::nullopt;
  }
  const auto offset = place(bytes, {});
  used_ += offset ? bytes : 0;
  return offset;
}

std::optional<size_t> Arena::borrow(size_t bytes) {
  return place(bytes, {.borrowed = true});
}

std::optional<size_t> Arena::reserve(size_t bytes) {
  return place(bytes, {.reserved = true});
}

bool Arena::take(size_t bytes) {
  const bool fits = bytes <= capacity_ - used_;
  used_ += fits ? bytes : 0;
  return fits;
}

std::optional<size_t> Arena::place(size_t bytes, const Range& kind) {
  const auto fit = freeBySize_.lower_bound({bytes, 0});
  if (fit == freeBySize_.end()) {
    return std::nullopt;
  }
  const auto range = ranges_.find(fit->second);
  removeFree(range);
  const size_t offset = range->first;
  const Range whole = range->second;
  range->second = {
      .bytes = bytes,
      .allocated = true,
      .borrowed = kind.borrowed,
      .reserved = kind.reserved};

  if (whole.bytes > bytes) {
    const size_t restOffset = offset + bytes;
    Range rest{.bytes = whole.bytes - bytes};
    rest.dirtyBegin = std::max(whole.dirtyBegin, restOffset);
    rest.dirtyEnd = std::max(whole.dirtyEnd, rest.dirtyBegin);
    addFree(ranges_.emplace_hint(std::next(range), restOffset, rest));
  }
  return offset;
}

void Arena::release(size_t offset) {
  auto range = ranges_.find(offset);
  size_t bytes = range->second.bytes;
  used_ -= range->second.borrowed || range->second.reserved ? 0 : bytes;
  size_t dirtyBegin = offset;
  size_t dirtyEnd = offset + bytes;
  const auto widenBy = [&](const Range& neighbour) {
    bytes += neighbour.bytes;
    if (neighbour.dirtyBegin < neighbour.dirtyEnd) {
      dirtyBegin = std::min(dirtyBegin, neighbour.dirtyBegin);
      dirtyEnd = std::max(dirtyEnd, neighbour.dirtyEnd);
    }
  };

  if (const auto next = std::next(range);
      next != ranges_.end() && !next->second.allocated) {
    removeFree(next);
    widenBy(next->second);
    ranges_.erase(next);
  }
  if (range != ranges_.begin() && !std::prev(range)->second.allocated) {
    const auto previous = std::prev(range);
    removeFree(previous);
    widenBy(previous->second);
    ranges_.erase(range);
    range = previous;
  }
  range->second = {
      .bytes = bytes, .dirtyBegin = dirtyBegin, .dirtyEnd = dirtyEnd};
  addFree(range);
}

Arena::Entry* Arena::find(size_t offset) {
  const auto after = ranges_.upper_bound(offset);
  if (after == ranges_.begin()) {
    return nullptr;
  }
  const auto range = std::prev(after);
  return range->second.allocated && offset - range->first < range->second.bytes
      ? &*range
      : nullptr;
}

void Arena::addFree(Ranges::iterator range) {
  auto& [offset, content] = *range;
  freeBySize_.emplace(content.bytes, offset);
  if (content.dirtyBegin < content.dirtyEnd) {
    linkDirty(content);
  }
}

void Arena::removeFree(Ranges::iterator range) {
  auto& [offset, content] = *range;
  freeBySize_.erase({content.bytes, offset});
  if (content.dirtyBegin < content.dirtyEnd) {
    unlinkDirty(content);
  }
}

void Arena::linkDirty(Range& range) {
  dirtyBytes_ += range.dirtyEnd - range.dirtyBegin;
  range.previousDirty = nullptr;
  range.nextDirty = firstDirty_;
  if (firstDirty_) {
    firstDirty_->previousDirty = &range;
  }
  firstDirty_ = &range;
}

void Arena::unlinkDirty(Range& range) {
  dirtyBytes_ -= range.dirtyEnd - range.dirtyBegin;
  (range.previousDirty ? range.previousDirty->nextDirty : firstDirty_) =
      range.nextDirty;
  if (range.nextDirty) {
    range.nextDirty->previousDirty = range.previousDirty;
  }
}

} // namespace openreg
