// The cache of device memory: segments from the device, cut into blocks.
//
// Nothing of PyTorch is in here, so that a vendor can lift it and a test can
// drive it with a device of its own.
#pragma once

#include "runtime/pool/Arenas.h"
#include "runtime/pool/BlockDevice.h"
#include "runtime/pool/BlockSizes.h"
#include "runtime/pool/Checkpoint.h"
#include "runtime/pool/ParkedBlocks.h"
#include "runtime/pool/PoolCounters.h"
#include "runtime/pool/PoolHistory.h"
#include "runtime/pool/PoolLock.h"
#include "runtime/pool/PoolTypes.h"
#include "runtime/pool/Quarantine.h"
#include "runtime/pool/Reserve.h"
#include "runtime/pool/Segments.h"

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace c10::openreg {

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
/// Threads: any may call anything.
// docs:end block-pool
class BlockPool {
 public:
  using Stream = BlockDevice::Stream;

  /// A pool that is destroyed does not give back what is allocated: the device's memory
  /// goes with the device.
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

  /// Counts an allocation that is refused without being tried, and tells observers of
  /// it.
  void noteFailure(
      size_t bytes,
      Stream stream,
      const PoolContext& context = kNoContext);

  /// Takes back what allocate() gave. Returns false for any other pointer.
  bool free(void* pointer, const PoolContext& context = kNoContext);

  /// The bytes of an allocated block, as the figures count them; 0 if `pointer` is
  /// not what allocate() gave.
  size_t sizeOf(const void* pointer) {
    const std::lock_guard lock(lock_);
    const Block* block = segments_.findAllocated(pointer);
    return block ? block->size : 0;
  }

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
  void setLimit(size_t bytes) {
    const std::lock_guard lock(lock_);
    reserve_.setLimit(bytes);
  }
  /// The oversize figures are right only if this comes before the first use.
  void setConfig(const PoolConfig& config) {
    const std::lock_guard lock(lock_);
    sizes_.set(config);
    mayGrow_ |= config.expandableSegments;
  }
  PoolConfig config() {
    const std::lock_guard lock(lock_);
    return sizes_.config();
  }

  /// Keeps blocks of the default pool back for a while after they were freed, or ends
  /// that. They count as freed, but not as inactive.
  void quarantineFreedBlocks(bool on) {
    const std::lock_guard lock(lock_);
    quarantine_.turn(on);
    endQuarantine(!on);
  }

  // --- private pools ---
  // While allocations go to a private pool, events are neither recorded nor
  // asked for and failed allocations are not tried again: a stream may be
  // capturing.

  /// One user more of a pool, which is made if need be.
  void retainPool(PoolId id) {
    const std::lock_guard lock(lock_);
    ++arenas_.at(id).users;
  }
  /// One user less. Without users the unused segments of a pool go back to the
  /// device with the next emptyCache(). Returns false if it had no users.
  bool releasePool(PoolId id) {
    const std::lock_guard lock(lock_);
    return arenas_.release(id);
  }
  int poolUsers(PoolId id) {
    const std::lock_guard lock(lock_);
    const PoolArena* arena = arenas_.find(id);
    return arena ? arena->users : 0;
  }
  /// From now on allocations for streams that pass `filter` are made in the pool, or if
  /// there are several such pools, in the one named last. Retains it. `filter` is
  /// called with the lock held. Returns false if that is so already.
  bool beginAllocateToPool(PoolId id, std::function<bool(Stream)> filter) {
    const std::lock_guard lock(lock_);
    return arenas_.addRoute(id, std::move(filter));
  }
  /// Ends that; the pool must still be released. Returns false if there was nothing to
  /// end.
  bool endAllocateToPool(PoolId id) {
    const std::lock_guard lock(lock_);
    return arenas_.removeRoute(id);
  }
  /// Lets other allocations use free blocks of a retained pool before they
  /// fail.
  void usePoolAsLastResort(PoolId id) {
    const std::lock_guard lock(lock_);
    arenas_.at(id).lastResort = true;
  }
  /// Blocks of a retained pool are used as they are.
  void doNotSplitInPool(PoolId id) {
    const std::lock_guard lock(lock_);
    arenas_.at(id).splits = false;
  }

  /// Segments of a retained pool come from elsewhere, and do not grow. They go back by
  /// BlockDevice::unmapSegment(), as all do.
  void setSource(PoolId id, SegmentSource source) {
    const std::lock_guard lock(lock_);
    arenas_.at(id).source = std::move(source);
  }

  // --- checkpoints of private pools ---

  /// Which blocks of a private pool are allocated now.
  PoolCheckpoint checkpoint(PoolId id) {
    const std::lock_guard lock(lock_);
    return {id, segments_.describe(id)};
  }
  /// Brings a pool back to such a state: what is allocated now is freed, and what was
  /// allocated then is again, whoever owns it. std::nullopt, and the pool is as before,
  /// if a segment of it is gone or work in other streams holds a block back.
  std::optional<PoolRestoration> restore(const PoolCheckpoint& checkpoint) {
    const std::lock_guard lock(lock_);
    return checkpoint.restore(segments_, counters_);
  }

  // --- looking ---

  /// How many bytes the device is asked for if no free block fits a request.
  size_t segmentSizeFor(size_t bytes) {
    const std::lock_guard lock(lock_);
    return sizes_.segmentSize(sizes_.blockSize(bytes));
  }
  PoolStats stats() {
    const std::lock_guard lock(lock_);
    return counters_.read();
  }
  /// Reserved bytes of each private pool there ever was.
  std::map<PoolId, PoolStats::Array> reservedByPool() {
    const std::lock_guard lock(lock_);
    return reserve_.byPool().read();
  }
  void resetPeakStats() {
    const std::lock_guard lock(lock_);
    counters_.resetPeaks();
    reserve_.byPool().resetPeaks();
  }
  void resetAccumulatedStats() {
    const std::lock_guard lock(lock_);
    counters_.resetSums();
    reserve_.byPool().resetSums(
        [this](PoolId id) { return arenas_.find(id) != nullptr; });
  }

  /// All segments, or those of a private pool, by address.
  std::vector<PoolSegmentInfo> snapshot(PoolId pool = {});

  /// Turns the history on, keeping the last `entries`, or off. `record` is for
  /// callers who ask shouldGather(); the history has contexts from Alloc on.
  void recordHistory(
      bool on,
      PoolRecord record = PoolRecord::All,
      size_t entries = SIZE_MAX,
      bool clear = false) {
    std::vector<PoolTraceEntry> old; // goes without the lock
    const std::lock_guard lock(lock_);
    old = history_.turn(on, record, entries, clear);
  }
  /// Whether a context is wanted of calls of that kind: State for allocate(),
  /// All for free() and emptyCache().
  bool shouldGather(PoolRecord kind) const {
    return history_.shouldGather(kind);
  }
  /// Oldest first.
  std::vector<PoolTraceEntry> history() {
    const std::lock_guard lock(lock_);
    return history_.read();
  }

  /// Called for each allocation that fails, before allocate() returns, without
  /// the lock.
  void observeOutOfMemory(
      std::function<void(const PoolOutOfMemory&)> observer) {
    const std::lock_guard lock(lock_);
    observers_.push_back(std::move(observer));
  }

 private:
  using Lock = std::unique_lock<PoolLock>;
  using Block = PoolBlock;

  static inline const PoolContext kNoContext;

  struct Request {
    size_t bytes;
    size_t size; // of the block
    Stream stream;
    const PoolContext& context;
  };

  void* allocateAnyhow(size_t bytes, Stream stream, const PoolContext& context);
  void* fail(const Request& request, Lock& lock);

  // --- with the lock held: parts of a hit, inline within BlockPool.cpp ---
  inline FreeBlocks& freeBlocks(const Request& request);
  inline FreeBlocks& startSearch(const Request& request);
  inline Block* takeCached(FreeBlocks& from, size_t size);
  inline void* finishAllocation(Block* block, const Request& request);

  // --- with the lock held ---
  Block* take(const Request& request);
  Block* takeFromLastResorts(const Request& request);
  void makeFree(Block* block, const PoolContext& context);
  void park(Block* block, const PoolContext& context);
  void settle(Block* block, const PoolContext& context) {
    if (block->usedBy.empty()) [[likely]] {
      makeFree(block, context);
    } else {
      park(block, context);
    }
  }
  bool isPrivate(const Block& block) {
    return &block.home->arena != &arenas_.defaultArena();
  }
  /// Frees blocks in quarantine: those that are too many, or all.
  void endQuarantine(bool ofAll = false);
  void reclaimParked();
  bool collects() const {
    return reserve_.limit() != SIZE_MAX &&
        sizes_.config().garbageCollectionThreshold > 0;
  }

  // --- these release the lock while they wait ---
  void waitForParked(Lock& lock, const PoolArena* only);
  void releaseCache(Lock& lock, PoolId pool, const PoolContext& context);
  bool releaseEnough(Lock& lock, const Request& request);
  void collectGarbage(Lock& lock, const PoolContext& context);
  void giveBack(
      Lock& lock,
      const std::vector<Block*>& segments,
      const PoolContext& context,
      const std::vector<Block*>& freeInGrowing = {});

  BlockDevice& device_;
  alignas(64) PoolLock lock_; // alone in its line: others spin on it
  // What each hit needs comes first.
  alignas(64) BlockSizes sizes_;
  bool mayGrow_ = false; // some segments do: the setting was on once
  PoolCounters counters_;
  ParkedBlocks parked_{device_};
  Quarantine quarantine_;
  Segments segments_{counters_};
  Arenas arenas_;
  PoolHistory history_;
  Reserve reserve_{device_, sizes_, segments_, counters_, history_};
  std::vector<std::function<void(const PoolOutOfMemory&)>> observers_;
};

} // namespace c10::openreg
