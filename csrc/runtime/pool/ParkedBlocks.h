// Blocks that were freed while work that uses them may be queued.
#pragma once

#include "runtime/pool/Arenas.h"
#include "runtime/pool/BlockDevice.h"

#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

namespace c10::openreg {

/// Each block is held back by an event for each stream that used it. The pool's lock
/// guards it.
class ParkedBlocks {
 public:
  struct Entry {
    BlockDevice::Event event;
    PoolBlock* block;
  };

  explicit ParkedBlocks(BlockDevice& device) : device_(device) {}
  ParkedBlocks(const ParkedBlocks&) = delete;
  ParkedBlocks& operator=(const ParkedBlocks&) = delete;

  bool empty() const {
    return count_ == 0;
  }

  /// Records events for the streams that used the block. Returns false if there is
  /// nothing to wait for: then the block is not parked.
  bool park(PoolBlock* block);

  /// Parks a block while no events may be recorded.
  void defer(PoolBlock* block);

  /// Records the events of the deferred blocks. Calls `free(block)` for those that
  /// have nothing to wait for.
  template <class Free>
  void recordDeferred(Free free) {
    count_ -= deferred_.size();
    for (PoolBlock* block : std::exchange(deferred_, {})) {
      if (!park(block)) {
        free(block);
      }
    }
  }

  /// Calls `free(block)` for the blocks whose events have happened.
  template <class Free>
  void reclaim(Free free) {
    for (auto& [stream, waiting] : events_) {
      while (!waiting.empty() && device_.finished(waiting.front().event)) {
        const auto [event, block] = waiting.front();
        waiting.pop_front();
        --count_;
        device_.destroy(event);
        release(block, free);
      }
    }
  }

  /// Takes all events out, or those of an arena's blocks; they are then to be
  /// waited for.
  std::vector<Entry> take(const PoolArena* only);

  /// Calls `free(block)` if no event holds the block back any more.
  template <class Free>
  static void release(PoolBlock* block, Free free) {
    if (--block->pendingEvents == 0) {
      free(block);
    }
  }

 private:
  size_t count_ = 0; // events, and deferred blocks
  BlockDevice& device_;
  // Oldest first for each stream.
  std::unordered_map<BlockDevice::Stream, std::deque<Entry>> events_;
  std::vector<PoolBlock*> deferred_;
};

} // namespace c10::openreg
