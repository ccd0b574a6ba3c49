// The cache of device memory: segments from the device, cut into blocks.
//
// Nothing of PyTorch is in here, so that a vendor can lift it and a test can
// drive it with a device of its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

namespace c10::openreg {

/// What the pool needs of a device. Streams and events are handles that only the
/// device understands. The calls marked "waits" are made without the pool's lock.
class BlockDevice {
 public:
  using Stream = void*;
  using Event = void*;

  virtual ~BlockDevice() = default;
  /// Memory of the device; nullptr if there is not enough.
  virtual void* mapSegment(size_t bytes) = 0;
  /// Takes it back; waits for work that may use it.
  virtual void unmapSegment(void* segment) = 0;
  /// An event for all work of the stream so far.
  virtual Event record(Stream stream) = 0;
  virtual bool finished(Event event) = 0;
  /// Waits for an event; returns early if it will never happen.
  virtual void wait(Event event) = 0;
  virtual void destroy(Event event) = 0;
};

/// One figure over time.
struct PoolStat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0; // sum of all increases
  int64_t freed = 0; // sum of all decreases

  void add(int64_t amount) {
    current += amount;
    peak = std::max(peak, current);
    allocated += amount;
  }
  void subtract(int64_t amount) {
    current -= amount;
    freed += amount;
  }
};

/// The figures torch.cuda.memory_stats() has: each for all blocks, for the small
/// and for the large ones.
struct PoolStats {
  enum Kind { All, Small, Large, Kinds };
  using Array = std::array<PoolStat, Kinds>;

  Array allocation, segment, active, inactiveSplit; // counts
  Array allocatedBytes, reservedBytes, activeBytes, inactiveSplitBytes;
  Array requestedBytes;
  int64_t retries = 0; // requests for which the cache had to be given back
  int64_t outOfMemory = 0; // requests that failed
  int64_t maps = 0; // calls of mapSegment() that succeeded
  int64_t unmaps = 0;

  /// Calls `visit(array)` for each of the arrays.
  template <class Visit>
  void forEach(Visit visit) {
    for (Array* array :
         {&allocation,
          &segment,
          &active,
          &inactiveSplit,
          &allocatedBytes,
          &reservedBytes,
          &activeBytes,
          &inactiveSplitBytes,
          &requestedBytes}) {
      visit(*array);
    }
  }
};

// docs:begin block-pool
/// A caching allocator for one device, by the rules of PyTorch's for CUDA.
///
/// Sizes are rounded to 512 bytes. Blocks up to 1 MiB are cut from segments of
/// 2 MiB, larger ones from segments of 20 MiB, and from 10 MiB on a block has a
/// segment of its own, rounded to 2 MiB. The smallest block that fits is taken
/// and the rest split off, if it is worth it; free neighbours become one again.
///
/// A block belongs to the stream it was allocated for: work in a stream is in
/// order, so a freed block may be handed out again for the same stream at once.
/// A block that other streams used too (recordStream) is parked until events on
/// them have happened.
///
/// Any thread may call anything.
// docs:end block-pool
class BlockPool {
 public:
  explicit BlockPool(BlockDevice& device) : device_(device) {}
  /// Does not free what is allocated: the device's memory goes with the device.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// At least `bytes` (not 0) for work of `stream`. If there is no memory left,
  /// waits for parked blocks, gives the cache back and tries again; nullptr if
  /// that fails too.
  void* allocate(size_t bytes, BlockDevice::Stream stream);

  /// The same, but never waits: nullptr if there is no memory at once. For code
  /// that runs inside a kernel.
  void* tryAllocate(size_t bytes, BlockDevice::Stream stream);

  /// Takes back what allocate() gave. Returns false for any other pointer.
  bool free(void* pointer);

  /// Notes that work of `stream` uses the memory too. Returns false if `pointer`
  /// is not what allocate() gave.
  bool recordStream(void* pointer, BlockDevice::Stream stream);

  /// Gives segments without allocated blocks back to the device, after waiting
  /// for parked blocks.
  void emptyCache();

  PoolStats stats();
  void resetPeakStats();
  void resetAccumulatedStats();

 private:
  using Lock = std::unique_lock<std::mutex>;

  struct Block;
  struct Order {
    bool operator()(const Block* a, const Block* b) const;
  };
  using FreeBlocks = std::set<Block*, Order>;
  using AllocatedBlocks = std::unordered_map<void*, Block*>;

  /// A piece of a segment.
  struct Block {
    void* pointer = nullptr;
    size_t size = 0;
    size_t requested = 0;
    BlockDevice::Stream stream = nullptr; // whose work may reuse it unasked
    bool small = false; // which of the two pools it belongs to
    bool allocated = false;
    Block* before = nullptr; // neighbours in the segment
    Block* after = nullptr;
    std::vector<BlockDevice::Stream> usedBy; // other streams noted for it
    int pendingEvents = 0; // after free(): events that still hold it back
    // Its places in the containers while it is in none of them, so that going
    // in and out takes no memory.
    FreeBlocks::node_type freeNode;
    AllocatedBlocks::node_type allocatedNode;

    bool isWholeSegment() const {
      return !before && !after;
    }
    bool isFree() const {
      return !allocated && pendingEvents == 0;
    }
  };

  Block* take(size_t size, BlockDevice::Stream stream);
  Block* takeCached(size_t size, BlockDevice::Stream stream);
  Block* takeNew(size_t size, BlockDevice::Stream stream);
  void* finishAllocation(Block* block, size_t size, size_t requested);
  void splitOff(Block* block, size_t size);
  void park(Block* block);
  void reclaimFinished();
  void makeFree(Block* block);
  void absorb(Block* block, Block* neighbour);
  Block* newBlock();
  void recycle(Block* block);
  void insertFree(Block* block);
  void takeFree(Block* block);
  void releaseCache(Lock& lock);
  void waitForParked(Lock& lock);
  FreeBlocks& freeBlocks(const Block* block) {
    return block->small ? freeSmall_ : freeLarge_;
  }
  static bool worthSplitting(const Block* block, size_t size);
  static void count(
      PoolStats::Array& array,
      const Block* block,
      int64_t amount) {
    for (const auto kind :
         {PoolStats::All, block->small ? PoolStats::Small : PoolStats::Large}) {
      amount >= 0 ? array[kind].add(amount) : array[kind].subtract(-amount);
    }
  }

  BlockDevice& device_;
  std::mutex mutex_;
  FreeBlocks freeSmall_, freeLarge_;
  AllocatedBlocks allocated_;
  std::vector<std::unique_ptr<Block>> spares_;
  // Events of parked blocks, oldest first for each stream.
  std::unordered_map<
      BlockDevice::Stream,
      std::deque<std::pair<BlockDevice::Event, Block*>>>
      parked_;
  PoolStats stats_;
};

} // namespace c10::openreg
