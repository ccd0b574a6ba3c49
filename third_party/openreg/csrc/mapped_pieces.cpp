// Memory that is mapped piece by piece into reserved addresses.
//
// Each address of a device has bytes of its own in the device's sparse memory, at both
// views. So mapping a piece is bookkeeping: it says that the bytes which belong to the
// addresses may be used, and unmapping gives their pages back. That is why a piece
// cannot move.
#include "memory.h"
#include "runtime.h"

#include <algorithm>
#include <iterator>

namespace openreg {

void* DeviceMemory::reserve(size_t bytes) {
  std::lock_guard lock(mutex_);
  if (memory_ < 0) {
    map();
  }
  // The rest of the addresses is for orMalloc(): as many as there is memory at least.
  const size_t most = addresses_.stride() -
      std::max(arena_.capacity(), addresses_.stride() / 4);
  if (bytes > most - std::min(most, reservedBytes_)) {
    return nullptr;
  }
  const auto offset = arena_.reserve(bytes);
  reservedBytes_ += offset ? bytes : 0;
  return offset ? addresses_.deviceAddress(device_) + *offset : nullptr;
}

orError_t DeviceMemory::unreserve(void* pointer, size_t bytes) {
  std::lock_guard lock(mutex_);
  const Arena::Entry* entry = find(pointer);
  if (!entry || !entry->second.reserved || entry->first != offsetOf(pointer)) {
    return fail(
        orErrorInvalidValue,
        "%p is not the start of a reserved range; was it freed before?",
        pointer);
  }
  const auto& [offset, range] = *entry;
  if (bytes != range.bytes) {
    return fail(
        orErrorInvalidValue,
        "the range at %p has %zu bytes, but size is %zu",
        pointer,
        range.bytes,
        bytes);
  }
  const auto piece = pieces_.lower_bound(offset);
  if (piece != pieces_.end() && piece->first < offset + bytes) {
    return fail(
        orErrorInvalidValue,
        "memory is mapped at %p; orMemUnmap() comes before orMemAddressFree()",
        static_cast<void*>(addresses_.deviceAddress(device_) + piece->first));
  }
  arena_.release(offset);
  reservedBytes_ -= bytes;
  return orSuccess;
}

uint64_t DeviceMemory::create(size_t bytes) {
  std::lock_guard lock(mutex_);
  if (!arena_.take(bytes)) {
    return 0;
  }
  memories_[++lastMemory_] = {bytes};
  return lastMemory_;
}

bool DeviceMemory::release(uint64_t memory) {
  std::lock_guard lock(mutex_);
  const auto found = memories_.find(memory);
  if (found == memories_.end() || found->second.isReleased) {
    return false;
  }
  found->second.isReleased = true;
  forgetIfUnused(memory);
  return true;
}

void DeviceMemory::forgetIfUnused(uint64_t memory) {
  const auto found = memories_.find(memory);
  if (found->second.isReleased && !found->second.isMapped) {
    arena_.giveBack(found->second.bytes);
    memories_.erase(found);
  }
}

DeviceMemory::Pieces::iterator DeviceMemory::pieceAround(size_t offset) {
  const auto after = pieces_.upper_bound(offset);
  if (after == pieces_.begin()) {
    return pieces_.end();
  }
  const auto piece = std::prev(after);
  return offset - piece->first < piece->second.bytes ? piece : pieces_.end();
}

std::pair<size_t, size_t> DeviceMemory::openAround(
    const Arena::Entry& range,
    size_t at) {
  auto first = pieceAround(at);
  if (first == pieces_.end() || !first->second.isOpen) {
    return {0, 0};
  }
  auto last = std::next(first);
  size_t begin = first->first, end = begin + first->second.bytes;
  while (begin > range.first && first != pieces_.begin() &&
         (--first)->second.isOpen &&
         first->first + first->second.bytes == begin) {
    begin = first->first;
  }
  for (; end < range.first + range.second.bytes && last != pieces_.end() &&
       last->first == end && last->second.isOpen;
       ++last) {
    end += last->second.bytes;
  }
  return {begin, end - begin};
}

orError_t DeviceMemory::mapPiece(void* pointer, size_t bytes, uint64_t memory) {
  std::lock_guard lock(mutex_);
  const auto found = memories_.find(memory);
  if (found == memories_.end() || found->second.isReleased) {
    return fail(
        orErrorInvalidHandle,
        "the handle is not memory of device %d; was it released?",
        device_);
  }
  if (bytes != found->second.bytes) {
    return fail(
        orErrorInvalidValue,
        "the memory has %zu bytes, but size is %zu",
        found->second.bytes,
        bytes);
  }
  if (found->second.wasMapped) {
    return fail(
        orErrorNotPermitted,
        "the memory was mapped before, and can be mapped once; orMemCreate() "
        "makes more");
  }
  const Arena::Entry* range = find(pointer);
  const size_t offset = range ? offsetOf(pointer) : 0;
  if (!range || !range->second.reserved ||
      (offset - range->first) % OPENREG_MEM_GRANULARITY != 0 ||
      bytes > range->first + range->second.bytes - offset) {
    return fail(
        orErrorInvalidValue,
        "%zu bytes at %p are not in a range that was reserved on device %d, a "
        "multiple of %zu bytes from its start",
        bytes,
        pointer,
        device_,
        OPENREG_MEM_GRANULARITY);
  }
  const auto next = pieces_.lower_bound(offset);
  if (pieceAround(offset) != pieces_.end() ||
      (next != pieces_.end() && next->first < offset + bytes)) {
    return fail(
        orErrorInvalidValue,
        "memory is mapped already within %zu bytes from %p on",
        bytes,
        pointer);
  }
  pieces_[offset] = {bytes, memory};
  found->second.wasMapped = found->second.isMapped = true;
  return orSuccess;
}

std::pair<DeviceMemory::Pieces::iterator, DeviceMemory::Pieces::iterator>
DeviceMemory::piecesOf(void* pointer, size_t bytes) {
  const size_t begin = offsetOf(pointer);
  const auto first = pieces_.find(begin);
  size_t end = begin;
  auto last = first;
  while (last != pieces_.end() && last->first == end && end - begin < bytes) {
    end += last->second.bytes;
    ++last;
  }
  if (bytes != 0 && end - begin == bytes) {
    return {first, last};
  }
  fail(
      orErrorInvalidValue,
      "%zu bytes at %p are not whole pieces of memory of device %d, side by "
      "side",
      bytes,
      pointer,
      device_);
  return {pieces_.end(), pieces_.end()};
}

orError_t DeviceMemory::setAccess(void* pointer, size_t bytes, bool isOpen) {
  std::lock_guard lock(mutex_);
  const auto [first, last] = piecesOf(pointer, bytes);
  for (auto piece = first; piece != last; ++piece) {
    piece->second.isOpen = isOpen;
  }
  return first == last ? orErrorInvalidValue : orSuccess;
}

orError_t DeviceMemory::checkPieces(void* pointer, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto [first, last] = piecesOf(pointer, bytes);
  return first == last ? orErrorInvalidValue : orSuccess;
}

orError_t DeviceMemory::unmapPieces(void* pointer, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto [first, last] = piecesOf(pointer, bytes);
  if (first == last) {
    return orErrorInvalidValue;
  }
  const size_t begin = first->first;
  stopSharing(begin, bytes);
  for (auto piece = first; piece != last;) {
    if (piece->second.openings > 0) {
      setHostAccess(piece->first, piece->second.bytes, os::Access::None);
    }
    const uint64_t memory = piece->second.memory;
    piece = pieces_.erase(piece);
    memories_.at(memory).isMapped = false;
    forgetIfUnused(memory);
  }
  os::returnPages(memory_, begin, bytes);
  return orSuccess;
}

} // namespace openreg
