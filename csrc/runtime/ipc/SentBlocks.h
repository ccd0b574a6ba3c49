// Memory that this process has sent to others.
#pragma once

#include "runtime/ipc/Message.h"

#include <c10/core/StorageImpl.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <unistd.h>

namespace c10::openreg::ipc {

// docs:begin ipc-sent
/// Memory that this process has sent. Its storages hold a number instead of the block;
/// the block itself is kept here until no storage of this process and no other process
/// uses it.
///
/// Threads: any may call anything.
class SentBlocks {
 public:
  /// Sends a storage; the block it had is moved here the first time.
  Message send(StorageImpl& storage);
  /// A storage over a block that comes back to its own process.
  DataPtr receive(const Message& message);
  bool isOwn(const Message& message);
  /// Frees the blocks that nobody uses any more, here or elsewhere. Returns whether
  /// there were any.
  bool collect();

 private:
  struct Block {
    DataPtr memory;
    int storages;
  };
  // docs:end ipc-sent
  static void releaseStorage(void* context);
  DataPtr view(uint32_t number, const Block& block) const;
  uint32_t add(StorageImpl& storage);

  std::mutex mutex_;
  const pid_t process_ = getpid();
  std::unique_ptr<IpcLedger> ledger_;
  std::map<uint32_t, Block> blocks_;
  std::set<uint32_t> abandoned_; // blocks without storages
  std::vector<uint32_t> freeNumbers_;
};

/// The one of this process. Never destroyed: tensors may outlive static destructors.
SentBlocks& sentBlocks();

} // namespace c10::openreg::ipc
