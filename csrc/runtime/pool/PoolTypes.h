// The types of the block pool's interface.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace c10::openreg {

/// Names a pool of memory; {0, 0} is the default one.
using PoolId = std::pair<uint64_t, uint64_t>;

/// Where in a program something happened: for the pool it is opaque. The last
/// reference may go while the pool's lock is held.
using PoolContext = std::shared_ptr<void>;

/// Settings of a pool, by the names PYTORCH_ALLOC_CONF has for them.
struct PoolConfig {
  /// Blocks from here on are never split, and only for requests as large.
  size_t maxSplitSize = SIZE_MAX;
  /// By how much such a block may be larger than a request.
  size_t maxNonSplitRounding = 20 << 20;
  /// The size of segments that blocks between 1 and 10 MiB share.
  size_t largeSegmentSize = 20 << 20;
  /// Into how many parts the interval between two powers of two is divided; a
  /// size is rounded up to a part. A number for sizes below 2 MiB, one for
  /// those below 4 MiB and so on; 0 and 1: no such rounding.
  std::array<size_t, 16> roundupPower2Divisions{};
  /// The part of the limit beyond which unused segments are given back before a
  /// new one is asked for; 0: never. Has an effect only if there is a limit.
  double garbageCollectionThreshold = 0;
  /// Whether there are few segments which grow, instead of many.
  bool expandableSegments = false;
};

/// For which calls a caller should gather a context.
enum class PoolRecord {
  Never,
  State, // allocations: snapshots tell where each block was allocated
  Alloc, // and the history does
  All, // frees too
};

/// Something that happened.
struct PoolTraceEntry {
  enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted, // later than requested if other streams used the block
    SegmentAlloc,
    SegmentFree,
    SegmentMap, // of a segment that grows
    SegmentUnmap,
    Snapshot,
    OutOfMemory,
  };

  Action action;
  uintptr_t address; // OutOfMemory: the bytes that the device has free
  size_t
      size; // as requested; of segments the whole; Snapshot: all active bytes
  void* stream;
  PoolId pool;
  int64_t time; // nanoseconds since 1970
  PoolContext context;
};

/// A block in a snapshot.
struct PoolBlockInfo {
  enum State { Inactive, ActiveAllocated, ActivePendingFree };

  uintptr_t address;
  size_t size;
  size_t requested; // 0 if inactive
  State state;
  PoolContext context; // of its allocation, if the history was on
};

/// A segment in a snapshot.
struct PoolSegmentInfo {
  uintptr_t address = 0;
  size_t size = 0;
  size_t requested = 0, allocated = 0, active = 0; // bytes
  void* stream = nullptr;
  bool isLarge = false;
  bool grows = false; // then it is a part with memory
  PoolId pool;
  PoolContext context; // of the allocation that needed it
  std::vector<PoolBlockInfo> blocks; // by address, without gaps
};

/// What an observer of failed allocations hears.
struct PoolOutOfMemory {
  size_t segment; // bytes the device was asked for
  size_t allowed; // the limit, or all there is on the device
  size_t free; // on the device
};

} // namespace c10::openreg
