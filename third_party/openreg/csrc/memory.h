// Device memory and its two addresses.
#pragma once

#include "openreg/device.h"
#include "openreg/memory.h"
#include "openreg/virtual_memory.h"
#include "address_space.h"
#include "arena.h"
#include "ipc.h"
#include "os.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace openreg {

/// The memory of one device.
///
/// Threads: any may call anything.
class DeviceMemory {
 public:
  DeviceMemory(int device, size_t capacity, AddressSpace& addresses);

  size_t capacity() const {
    return arena_.capacity();
  }
  size_t used();

  /// Where the bytes are, see orDeviceGetMemory(). Throws std::bad_alloc.
  orDeviceMemory place();

  /// A new allocation of whole pages, or nullptr if there is no room.
  void* allocate(size_t bytes);

  /// Frees the allocation that starts at `pointer`. Returns false if none does.
  bool free(void* pointer);

  /// Whether a live allocation starts at `pointer`.
  bool isStart(const void* pointer);

  /// How many bytes of the live allocation around `pointer` follow it; 0 if
  /// there is none.
  size_t bytesFrom(const void* pointer);

  /// The live allocation around `pointer`; {nullptr, 0} if there is none.
  std::pair<void*, size_t> rangeAround(const void* pointer);

  // --- in reserved ranges (mapped_pieces.cpp) ---
  // Those with a status set the thread's error if they fail.

  /// A new range of addresses, or nullptr.
  void* reserve(size_t bytes);
  orError_t unreserve(void* pointer, size_t bytes);
  /// Memory without an address, or 0 if there is not that much.
  uint64_t create(size_t bytes);
  /// Returns false if there is no such memory.
  bool release(uint64_t memory);
  orError_t mapPiece(void* pointer, size_t bytes, uint64_t memory);
  orError_t setAccess(void* pointer, size_t bytes, bool isOpen);
  /// Whether unmapPieces() would work but for the state of the device.
  orError_t checkPieces(void* pointer, size_t bytes);
  orError_t unmapPieces(void* pointer, size_t bytes);

  // --- for the host ---

  /// Opens or closes an allocation for the host, see orMemoryUnprotect().
  orError_t changeOpenings(void* pointer, int by);

  // --- with other processes (ipc_memory.cpp) ---

  /// Names the allocation that starts at `pointer` for others. `number` is the
  /// device's own in every process.
  orError_t share(void* pointer, uint32_t number, ipc::Handle* handle);

  /// Maps memory of another process. It is no part of used(). Returns nullptr
  /// with the thread's error set.
  void* borrow(const ipc::Handle& handle, const ipc::Shared& from);

  /// Undoes one borrow(). Returns false if nothing borrowed starts there.
  bool giveBack(const void* pointer);
  bool isBorrowed(const void* pointer);

 private:
  struct Loan {
    uint64_t check, stamp; // of the handle
    int openings;
  };

  /// Memory from create().
  struct Memory {
    size_t bytes;
    bool isReleased = false;
    bool wasMapped = false;
    bool isMapped = false;
  };
  /// Memory in a reserved range.
  struct Piece {
    size_t bytes;
    uint64_t memory;
    bool isOpen = false; // for kernels and copies
    int openings = 0; // for the host
  };
  using Pieces = std::map<size_t, Piece>;

  Arena::Entry* find(const void* pointer);
  /// Offset and bytes of the allocation around a pointer, or of the pieces that touch
  /// there; {0, 0} if there is none.
  std::pair<size_t, size_t> liveAround(const void* pointer);
  std::pair<size_t, size_t> openAround(const Arena::Entry& range, size_t at);
  Pieces::iterator pieceAround(size_t offset);
  /// The pieces that make up the bytes; an empty range, with the thread's error set, if
  /// they do not.
  std::pair<Pieces::iterator, Pieces::iterator> piecesOf(
      void* pointer,
      size_t bytes);
  void forgetIfUnused(uint64_t memory);
  /// What starts within the bytes and was shared is gone.
  void stopSharing(size_t offset, size_t bytes);
  size_t offsetOf(const void* pointer) const;
  void map();
  bool mapViews(int memory, size_t from, size_t offset, size_t bytes);
  void takeBack(size_t offset);
  void setHostAccess(size_t offset, size_t bytes, os::Access access);

  const int device_;
  AddressSpace& addresses_;
  std::mutex mutex_;
  Arena arena_;
  int memory_ = -1; // descriptor; -1: not mapped yet
  // What others may open, by offset and bytes: more may have been mapped since.
  std::map<std::pair<size_t, size_t>, std::shared_ptr<ipc::Shared>> shared_;
  // What is theirs, by offset.
  std::map<size_t, Loan> loans_;
  Pieces pieces_; // by offset
  std::map<uint64_t, Memory> memories_;
  uint64_t lastMemory_ = 0;
  size_t reservedBytes_ = 0; // addresses of all ranges
};

} // namespace openreg
