#include "runtime/pool/ParkedBlocks.h"

namespace c10::openreg {

bool ParkedBlocks::park(PoolBlock* block) {
  block->state = PoolBlock::Parked;
  for (BlockDevice::Stream stream : std::exchange(block->usedBy, {})) {
    if (BlockDevice::Event event = device_.record(stream)) {
      events_[stream].push_back({event, block});
      ++count_;
      ++block->pendingEvents;
    }
  }
  return block->pendingEvents != 0;
}

void ParkedBlocks::defer(PoolBlock* block) {
  block->state = PoolBlock::Parked;
  deferred_.push_back(block);
  ++count_;
}

std::vector<ParkedBlocks::Entry> ParkedBlocks::take(const PoolArena* only) {
  std::vector<Entry> taken;
  for (auto& [stream, waiting] : events_) {
    std::erase_if(waiting, [&](const Entry& entry) {
      const bool matches = !only || &entry.block->home->arena == only;
      if (matches) {
        taken.push_back(entry);
      }
      return matches;
    });
  }
  count_ -= taken.size();
  return taken;
}

} // namespace c10::openreg
