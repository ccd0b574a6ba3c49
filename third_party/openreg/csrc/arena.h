// Which parts of a device's address range are allocated. Bookkeeping only: it
// touches no memory of the device, and its callers lock.
#pragma once

#include <cstddef>
#include <map>
#include <memory_resource>
#include <optional>
#include <set>
#include <utility>

namespace openreg {

/// Hands out ranges of [0, space) by best fit, at most `capacity` bytes at a
/// time. Sizes and offsets are in bytes, multiples of the caller's page. Every
/// operation takes logarithmic time.
///
/// The space may be larger than the capacity, so that fragmentation does not
/// make an allocation fail while there is memory for it.
class Arena {
 public:
  struct Range {
    size_t bytes = 0;
    bool allocated = false;
    bool borrowed = false; // of an allocated range: see borrow()
    bool reserved = false; // of an allocated range: see reserve()
    int openings = 0; // of an allocated range: orMemoryUnprotect() calls
    // Of a free range: the part that may still hold pages, if not empty, and
    // the other ranges that have such a part.
    size_t dirtyBegin = 0;
    size_t dirtyEnd = 0;
    Range* previousDirty = nullptr;
    Range* nextDirty = nullptr;
  };
  /// An offset and what is there.
  using Entry = std::pair<const size_t, Range>;

  Arena(size_t space, size_t capacity);

  /// The offset of a new range of `bytes` > 0.
  std::optional<size_t> allocate(size_t bytes);

  /// The same for memory of others, which does not count as used.
  std::optional<size_t> borrow(size_t bytes);

  /// The same for addresses without memory, which is taken and given back apart.
  std::optional<size_t> reserve(size_t bytes);
  bool take(size_t bytes);
  void giveBack(size_t bytes) {
    used_ -= bytes;
  }

  /// Frees the range that one of these placed at `offset`. It counts as dirty.
  void release(size_t offset);

  /// The allocated range that `offset` lies in, or nullptr.
  Entry* find(size_t offset);

  size_t capacity() const {
    return capacity_;
  }
  size_t used() const {
    return used_;
  }

  /// Bytes in free ranges that may still hold pages.
  size_t dirtyBytes() const {
    return dirtyBytes_;
  }

  /// Calls `clean(offset, bytes)` for each of them; afterwards none is dirty.
  template <class Clean>
  void cleanDirty(Clean clean);

 private:
  using Ranges = std::pmr::map<size_t, Range>;

  std::optional<size_t> place(size_t bytes, const Range& kind);

  void addFree(Ranges::iterator range);
  void removeFree(Ranges::iterator range);
  void linkDirty(Range& range);
  void unlinkDirty(Range& range);

  const size_t capacity_;
  size_t used_ = 0;
  size_t dirtyBytes_ = 0;
  std::pmr::unsynchronized_pool_resource nodes_;
  Ranges ranges_; // free and allocated, without gaps
  std::pmr::set<std::pair<size_t, size_t>> freeBySize_; // (bytes, offset)
  Range* firstDirty_ = nullptr;
};

template <class Clean>
void Arena::cleanDirty(Clean clean) {
  while (Range* range = firstDirty_) {
    clean(range->dirtyBegin, range->dirtyEnd - range->dirtyBegin);
    unlinkDirty(*range);
    range->dirtyBegin = range->dirtyEnd = 0;
  }
}

} // namespace openreg
