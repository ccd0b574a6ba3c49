#include "runtime/ipc/SentBlocks.h"

#include "runtime/OpenRegException.h"

namespace c10::openreg::ipc {
namespace {

// A context is the number of a block; nullptr would mean that there is none.
void* contextOf(uint32_t number) {
  return reinterpret_cast<void*>(uintptr_t{number} + 1);
}
uint32_t numberOf(const void* context) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(context) - 1);
}

} // namespace

SentBlocks& sentBlocks() {
  static auto* blocks = new SentBlocks;
  return *blocks;
}

DataPtr SentBlocks::view(uint32_t number, const Block& block) const {
  return {
      block.memory.get(),
      contextOf(number),
      &releaseStorage,
      block.memory.device()};
}

uint32_t SentBlocks::add(StorageImpl& storage) {
  if (!ledger_) {
    ledger_ = std::make_unique<IpcLedger>();
  }
  uint32_t number = static_cast<uint32_t>(blocks_.size());
  if (!freeNumbers_.empty()) {
    number = freeNumbers_.back();
    freeNumbers_.pop_back();
  }
  TORCH_CHECK(
      number < IpcLedger::kMostBlocks,
      "more than ",
      IpcLedger::kMostBlocks,
      " blocks of memory are shared; delete tensors here or where they were "
      "received");
  Block& block = blocks_[number];
  block = {DataPtr(storage.data_ptr().get(), storage.device()), 1};
  block.memory = storage.set_data_ptr(view(number, block));
  return number;
}

Message SentBlocks::send(StorageImpl& storage) {
  Message message{};
  void* base = nullptr;
  OPENREG_CHECK(orMemGetAddressRange(&base, nullptr, storage.data()));
  OPENREG_CHECK(orIpcGetMemHandle(&message.memory, base));
  message.offset = static_cast<uint64_t>(
      static_cast<const char*>(storage.data()) - static_cast<char*>(base));
  message.bytes = storage.nbytes();

  std::lock_guard lock(mutex_);
  const uint32_t number = storage.data_ptr().get_deleter() == &releaseStorage
      ? numberOf(storage.data_ptr().get_context())
      : add(storage);
  ledger_->send(number);
  message.block = number;
  message.ledger = ledger_->address();
  return message;
}

bool SentBlocks::isOwn(const Message& message) {
  std::lock_guard lock(mutex_);
  return ledger_ && ledger_->address().mark == message.ledger.mark &&
      process_ == getpid();
}

DataPtr SentBlocks::receive(const Message& message) {
  std::lock_guard lock(mutex_);
  const auto number = static_cast<uint32_t>(message.block);
  const auto found = blocks_.find(number);
  TORCH_CHECK(
      found != blocks_.end(),
      "the tensor was sent by this process and has been received before, so "
      "its "
      "memory was freed; send the tensor again");
  ++found->second.storages;
  abandoned_.erase(number);
  ledger_->arrive(number);
  return view(number, found->second);
}

void SentBlocks::releaseStorage(void* context) {
  SentBlocks& self = sentBlocks();
  if (self.process_ != getpid()) {
    return; // a forked child has no device memory
  }
  {
    std::lock_guard lock(self.mutex_);
    const uint32_t number = numberOf(context);
    if (--self.blocks_.at(number).storages == 0) {
      self.abandoned_.insert(number);
    }
  }
  self.collect();
}

bool SentBlocks::collect() {
  std::vector<DataPtr> unused; // freed without the lock
  std::lock_guard lock(mutex_);
  std::erase_if(abandoned_, [&](uint32_t number) {
    if (ledger_->inUse(number)) {
      return false;
    }
    unused.push_back(std::move(blocks_.at(number).memory));
    blocks_.erase(number);
    freeNumbers_.push_back(number);
    return true;
  });
  return !unused.empty();
}

} // namespace c10::openreg::ipc
