// Handles that can be checked: a table of objects that are reused but never
// freed, so that a stale or made-up handle is recognised instead of followed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace openreg {

/// Objects of type T, named by handles of pointer type H. A handle holds the
/// object's place, its generation, which is odd while the object is open, and a
/// mark that tells the handles of one table from those of another. At most
/// `capacity` objects are open at a time.
///
/// T has reusable(): whether a closed object may be opened again. Looking up takes
/// no lock; an object that is closed meanwhile stays valid memory.
///
/// Threads: any may call anything.
template <class T, class H, uint32_t mark, uint32_t capacity>
class HandleTable {
 public:
  /// The open object that `handle` names, or nullptr.
  T* find(H handle) const {
    const auto bits = reinterpret_cast<uintptr_t>(handle);
    const uint32_t place = placeOf(handle);
    if (place >= size_.load(std::memory_order_acquire)) {
      return nullptr;
    }
    Entry& entry = at(place);
    const auto generation = static_cast<uint32_t>(bits >> 32);
    return generation % 2 == 1 &&
            entry.generation.load(std::memory_order_acquire) == generation
        ? &entry.object
        : nullptr;
  }

  /// Prepares an object with `open(object)` and names it. Returns nullptr if the
  /// table is full.
  template <class Open>
  H create(Open open) {
    std::lock_guard lock(mutex_);
    const int64_t place = takePlace();
    if (place < 0) {
      return nullptr;
    }
    Entry& entry = at(static_cast<uint32_t>(place));
    open(entry.object);
    const uint32_t generation = entry.generation.load() + 1;
    entry.generation.store(generation, std::memory_order_release);
    return reinterpret_cast<H>(
        uintptr_t{generation} << 32 | kMark | static_cast<uint32_t>(place));
  }

  /// Closes an object, after `close(object)`. Returns false if `handle` is not
  /// open.
  template <class Close>
  bool destroy(H handle, Close close) {
    std::lock_guard lock(mutex_);
    T* object = find(handle);
    if (!object) {
      return false;
    }
    const uint32_t place = placeOf(handle);
    closed_.push_back(place);
    close(*object);
    at(place).generation.fetch_add(1, std::memory_order_release);
    return true;
  }

  /// Visits every object that was ever opened: closed ones may still be busy.
  template <class Visit>
  void forEach(Visit visit) const {
    const uint32_t size = size_.load(std::memory_order_acquire);
    for (uint32_t place = 0; place < size; ++place) {
      visit(at(place).object);
    }
  }

 private:
  struct Entry {
    std::atomic<uint32_t> generation{0};
    T object;
  };
  static constexpr uint32_t kChunk = 64;
  static constexpr uint32_t kMark = mark << 24;
  static_assert(capacity % kChunk == 0 && capacity <= 1 << 24);

  // Beyond all places, if the mark is another table's.
  static uint32_t placeOf(H handle) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle)) ^ kMark;
  }

  Entry& at(uint32_t place) const {
    return chunks_[place / kChunk].load(
        std::memory_order_acquire)[place % kChunk];
  }

  int64_t takePlace() {
    for (size_t i = closed_.size(); i-- > 0;) {
      const uint32_t place = closed_[i];
      if (at(place).object.reusable()) {
        closed_.erase(closed_.begin() + static_cast<ptrdiff_t>(i));
        return place;
      }
    }
    const uint32_t place = size_.load();
    if (place == capacity) {
      return -1;
    }
    if (place % kChunk == 0) {
      owned_.push_back(std::make_unique<Entry[]>(kChunk));
      chunks_[place / kChunk].store(
          owned_.back().get(), std::memory_order_release);
    }
    size_.store(place + 1, std::memory_order_release);
    return place;
  }

  std::mutex mutex_;
  std::atomic<uint32_t> size_{0};
  std::array<std::atomic<Entry*>, capacity / kChunk> chunks_{};
  std::vector<std::unique_ptr<Entry[]>> owned_;
  std::vector<uint32_t> closed_;
};

} // namespace openreg
