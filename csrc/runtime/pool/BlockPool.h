// The cache of device memory: segments from the device, cut into blocks.
//
// Nothing of PyTorch is in here, so that a vendor can lift it and a test can
// drive it with a device of its own.
#pragma once

#include "runtime/OpenRegFreeBlocks.h"
#include "runtime/OpenRegPoolHistory.h"
#include "runtime/OpenRegPoolLock.h"
#include "runtime/OpenRegPoolStats.h"
#include "runtime/OpenRegPoolTypes.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace c10::openreg {

/// What the pool needs of a device. Streams and events are handles that only
/// the device understands. The calls marked "waits" are made without the pool's
/// lock.
class BlockDevice {
 public:
  using Stream = void*;
  using Event = void*;

  virtual ~BlockDevice() = default;
  /// Memory of the device; nullptr if there is not enough.
  virtual void* mapSegment(size_t bytes) = 0;
  /// Takes it back; waits for work that may use it.
  virtual void unmapSegment(void* segment) = 0;
  /// Throws if the device is broken: then it takes nothing back.
  virtual void checkUsable() {}
  /// An event for all work of the stream so far.
  virtual Event record(Stream stream) = 0;
  virtual bool finished(Event event) = 0;
  /// Waits for an event; returns early if it will never happen.
  virtual void wait(Event event) = 0;
  virtual void destroy(Event event) = 0;
  /// Whether another thread runs a kernel in the stream that may allocate: what is
  /// freed meanwhile may be in use by work behind that kernel.
  virtual bool runsElsewhere(Stream /*stream*/) {
    return false;
  }
  /// {free, total} bytes, told to observers of failed allocations.
  virtual std::pair<size_t, size_t> memoryInfo() {
    return {0, 0};
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
/// them have happened; so is one that is freed while another thread runs a kernel
/// in its stream.
///
/// Any thread may call anything.
// docs:end block-pool
class BlockPool {
 public:
  using Stream = BlockDevice::Stream;

  /// The pool does not give back what is allocated when it goes: the device's
  /// memory goes with the device.
  explicit BlockPool(BlockDevice& device, const PoolConfig& config = {})
      : device_(device) {
    setConfig(config);
  }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // --- memory ---

  /// At least `bytes` (not 0) for work of `stream`. If there is no memory left,
  /// waits for parked blocks, gives the cache back and tries again; nullptr if
  /// that fails too.
  void* allocate(
      size_t bytes,
      Stream stream,
      const PoolContext& context = kNoContext);

  /// The same, but never waits: nullptr if there is no memory at once. For code
  /// that runs inside a kernel.
  void* tryAllocate(
      size_t bytes,
      Stream stream,
      const PoolContext& context = kNoContext);

  /// Counts and tells an allocation that is refused without being tried.
  void noteFailure(
      size_t bytes,
      Stream stream,
      const PoolContext& context = kNoContext);

  /// Takes back what allocate() gave. Returns false for any other pointer.
  bool free(void* pointer, const PoolContext& context = kNoContext);

  /// Notes that work of `stream` uses the memory too. Returns false if
  /// `pointer` is not what allocate() gave.
  bool recordStream(void* pointer, Stream stream);

  /// Gives segments without allocated blocks back to the device, after waiting
  /// for parked blocks: those of the default pool and of all pools without
  /// users, or of the named one if it has no users.
  void emptyCache(PoolId pool = {}, const PoolContext& context = kNoContext);

  // --- settings ---

  /// The most bytes of segments at a time; SIZE_MAX: as many as the device has.
  /// An allocation that would need more fails as if the device had no more.
  void setLimit(size_t bytes);
  /// The oversize figures are right only if this comes before the first use.
  void setConfig(const PoolConfig& config);
  PoolConfig config();

  /// Lets the n-th allocation from now fail, once, as if there were no memory;
  /// 0: none. Returns how many were still to come until an earlier such wish.
  size_t failAllocation(size_t n);

  // --- private pools ---
  // While allocations go to a private pool, events are neither recorded nor
  // asked for and failed allocations are not tried again: a stream may be
  // capturing.

  /// One user more of a pool, which is made if need be.
  void retainPool(PoolId id);
  /// One user less. Without users the unused segments of a pool go back to the
  /// device with the next emptyCache(). Returns false if it had no users.
  bool releasePool(PoolId id);
  int poolUsers(PoolId id);
  /// From now on allocations for streams that pass `filter` are made in the
  /// pool; of several pools in the one named last. Retains it. `filter` is
  /// called with the lock held. Returns false if that is so already.
  bool beginAllocateToPool(PoolId id, std::function<bool(Stream)> filter);
  /// Ends that; the pool is still to be released. Returns false if it was not
  /// so.
  bool endAllocateToPool(PoolId id);
  /// Lets other allocations use free blocks of a retained pool before they
  /// fail.
  void usePoolAsLastResort(PoolId id);
  /// Blocks of a retained pool are used as they are.
  void doNotSplitInPool(PoolId id);

  // --- looking ---

  /// How much is asked of the device for a request that no free block fits.
  size_t segmentSizeFor(size_t bytes);
  PoolStats stats();
  /// Reserved bytes of each private pool there ever was.
  std::map<PoolId, PoolStats::Array> reservedByPool();
  void resetPeakStats();
  void resetAccumulatedStats();

  /// All segments, or those of a private pool, by address.
  std::vector<PoolSegmentInfo> snapshot(PoolId pool = {});

  /// Turns the history on, keeping the last `entries`, or off. `record` is for
  /// callers who ask shouldGather(); the history has contexts from Alloc on.
  void recordHistory(
      bool on,
      PoolRecord record = PoolRecord::All,
      size_t entries = SIZE_MAX,
      bool clear = false);
  /// Whether a context is wanted of calls of that kind: State for allocate(),
  /// All for free() and emptyCache().
  bool shouldGather(PoolRecord kind) const {
    return record_.load(std::memory_order_relaxed) >= kind;
  }
  /// Oldest first.
  std::vector<PoolTraceEntry> history();

  /// Called for each allocation that fails, before allocate() returns, without
  /// the lock.
  void observeOutOfMemory(std::function<void(const PoolOutOfMemory&)> observer);

 private:
  using Lock = std::unique_lock<PoolLock>;
  using Block = PoolBlock;
  using Cache = PoolArena::Cache;

  static inline const PoolContext kNoContext;

  struct Request {
    size_t bytes;
    size_t size; // of the block
    Stream stream;
    const PoolContext& context;
  };
  struct Segment {
    Block* first; // always the same one
    PoolContext context;
  };
  struct Parked {
    BlockDevice::Event event;
    Block* block;
  };

  void* allocateAnyhow(size_t bytes, Stream stream, const PoolContext& context);
  void* fail(const Request& request, Lock& lock);

  // --- with the lock held: parts of a hit, inline within OpenRegBlockPool.cpp ---
  inline size_t blockSize(size_t bytes) const;
  inline FreeBlocks& startSearch(const Request& request);
  inline FreeBlocks& freeBlocks(size_t size, Stream stream);
  inline Block* takeCached(FreeBlocks& from, size_t size);
  inline void* finishAllocation(Block* block, const Request& request);
  inline bool worthSplitting(const Block* block, size_t size) const;
  inline void splitOff(Block* block, size_t size);
  inline void insertFree(Block* block);
  inline Block* join(Block* left, Block* right);
  inline Block* newBlock();
  void reclaimFinished() {
    if (parkedCount_ != 0) [[unlikely]] {
      reclaimParked();
    }
  }
  // The private pool that takes the allocations of a stream, or nullptr.
  PoolArena* arenaFor(Stream stream) {
    return routes_.empty() ? nullptr : routeOf(stream);
  }
  void recycle(Block* block) {
    if (block->listed) {
      table_.erase(block);
      block->listed = false;
    }
    block->after = std::exchange(spares_, block);
  }

  // --- with the lock held ---
  size_t segmentSize(size_t size) const;
  PoolArena* routeOf(Stream stream);
  PoolArena& arena(PoolId id);
  Block* take(const Request& request);
  Block* takeNew(FreeBlocks& home, const Request& request);
  Block* takeFromLastResorts(const Request& request);
  void makeFree(Block* block, const PoolContext& context);
  void park(Block* block, const PoolContext& context);
  void parkDeferred();
  void reclaimParked();
  bool collects() const {
    return limit_ != SIZE_MAX && config_.garbageCollectionThreshold > 0;
  }
  template <class Accept>
  std::vector<Block*> unusedSegments(Accept accept);
  void* forget(Block* segment, const PoolContext& context);
  void forgetUnused();
  void countSegment(const Block* block, int change);
  void recordEvent(
      PoolTraceEntry::Action action,
      const void* address,
      size_t size,
      const FreeBlocks& home,
      const PoolContext& context) {
    if (recording_) [[unlikely]] {
      addToHistory(action, address, size, home.stream, home.arena.id, context);
    }
  }
  void addToHistory(
      PoolTraceEntry::Action action,
      const void* address,
      size_t size,
      Stream stream,
      PoolId pool,
      const PoolContext& context);

  // --- these give the lock away while they wait ---
  void releaseCache(Lock& lock, PoolId pool, const PoolContext& context);
  bool releaseEnough(
      Lock& lock,
      const FreeBlocks& home,
      const Request& request);
  void collectGarbage(Lock& lock, const PoolContext& context);
  void unmap(Lock& lock, const std::vector<void*>& segments);
  void waitForParked(Lock& lock, const PoolArena* only);

  BlockDevice& device_;
  alignas(64) PoolLock lock_; // alone in its line: others spin on it
  // What each hit needs.
  alignas(64) Cache* lastCache_ = nullptr; // of the default pool
  size_t parkedCount_ = 0; // events of parked blocks, and deferred blocks
  Block* spares_ = nullptr; // linked by `after`
  size_t untilFailure_ = 0; // allocations with the failing one; 0: none fails
  bool recording_ = false;
  bool roundsToPowers_ = false;
  PoolConfig config_;
  size_t limit_ = SIZE_MAX;
  BlockTable table_; // blocks that are, or once were, allocated
  // Where allocations go that do not go to the default pool.
  std::vector<std::pair<PoolArena*, std::function<bool(Stream)>>> routes_;
  PoolCounters counters_;

  std::deque<Block> blocks_; // all there ever were
  std::map<char*, Segment> segments_;
  PoolArena default_{PoolId{}};
  std::map<PoolId, PoolArena> private_;
  struct Reserved {
    PoolCounter counter;
    PoolStats::Array atReset;
  };
  std::map<PoolId, Reserved> reserved_; // of private pools, also former ones
  // Events of parked blocks, oldest first for each stream.
  std::unordered_map<Stream, std::deque<Parked>> parked_;
  std::vector<Block*> deferred_; // parked, but no events are recorded yet

  std::atomic<PoolRecord> record_{PoolRecord::Never};
  PoolHistory history_;
  std::vector<std::function<void(const PoolOutOfMemory&)>> observers_;
};

} // namespace c10::openreg
