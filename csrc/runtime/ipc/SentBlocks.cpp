#include "runtime/OpenRegIpc.h"

#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegGuard.h"
#include "runtime/OpenRegIpcLedger.h"

#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>

namespace c10::openreg {
namespace {

/// What travels: which memory, and where its owner counts who uses it.
struct Message {
  orIpcMemHandle_t memory;
  IpcLedger::Address ledger;
  uint64_t block;
  uint64_t offset; // of the storage in the allocation
  uint64_t bytes; // of the storage
};
static_assert(std::is_trivially_copyable_v<Message>);

// --- what this process has sent -----------------------------------------------

// docs:begin ipc-sent
/// Memory that was sent. The storages over it hold a number in its place; the
/// block itself is here until no storage of this process and no other process
/// uses it.
class SentBlocks {
 public:
  /// Sends a storage; the block it had is moved here the first time.
  Message send(StorageImpl& storage);
  /// A storage over a block that comes back to its own process.
  DataPtr receive(const Message& message);
  bool isOwn(const Message& message);
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

// Never destroyed: tensors may outlive static destructors.
SentBlocks& sentBlocks() {
  static auto* blocks = new SentBlocks;
  return *blocks;
}

// A context is the number of a block; nullptr would mean that there is none.
void* contextOf(uint32_t number) {
  return reinterpret_cast<void*>(uintptr_t{number} + 1);
}
uint32_t numberOf(const void* context) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(context) - 1);
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
      "the tensor was sent by this process and has been received before; its "
      "memory is given back");
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

// --- what it has received -------------------------------------------------------

/// Where memory of other processes is mapped.
struct ReceivedRanges {
  std::atomic<size_t> count{0};
  std::mutex mutex;
  std::multimap<const char*, size_t> bytes; // by the first address

  void add(const void* base, size_t size) {
    std::lock_guard lock(mutex);
    bytes.emplace(static_cast<const char*>(base), size);
    count.store(bytes.size());
  }
  void remove(const void* base) {
    std::lock_guard lock(mutex);
    bytes.erase(bytes.find(static_cast<const char*>(base)));
    count.store(bytes.size());
  }
};

// Never destroyed: tensors may outlive static destructors.
ReceivedRanges& receivedRanges() {
  static auto* ranges = new ReceivedRanges;
  return *ranges;
}

/// Memory of another process.
struct Received {
  Received(const Message& message)
      : reference(message.ledger, static_cast<uint32_t>(message.block)) {
    OPENREG_CHECK(orIpcOpenMemHandle(
        &base, message.memory, orIpcMemLazyEnablePeerAccess));
    orMemGetAddressRange(nullptr, &size, base);
    receivedRanges().add(base, size);
  }
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;
  ~Received() {
    receivedRanges().remove(base);
    OPENREG_CHECK_WARN(orIpcCloseMemHandle(base));
  }

  // The reference goes last: until then the owner keeps the memory.
  const IpcReference reference;
  void* base = nullptr;
  size_t size = 0;
  DeviceIndex device = -1;
  const pid_t process = getpid();
  std::mutex mutex;
  std::vector<OpenRegStream> streams; // that used it, besides the current one
};

// docs:begin ipc-release
// The memory may be in use by work that is queued: it is given back behind that,
// in the current stream, without waiting. On a stream that takes no more work the
// callable is destroyed at once.
void releaseReceived(void* context) {
  std::unique_ptr<Received> received(static_cast<Received*>(context));
  if (received->process != getpid()) {
    received.release(); // a forked child has none of it
    return;
  }
  const OpenRegStream stream =
      currentStreamOf(Device(DeviceType::PrivateUse1, received->device));
  try {
    for (const OpenRegStream& used : received->streams) {
      OpenRegEvent event;
      event.record(used);
      event.block(stream);
    }
  } catch (const Error&) {
    orGetLastError(); // a broken device, which its next user hears of
  }
  const orLaunchConfig config{"release shared memory", orLaunchSmall};
  if (orLaunchKernelEx(&config, stream, [owned = std::move(received)] {}) !=
      orSuccess) {
    orGetLastError();
  }
}
// docs:end ipc-release

DataPtr openMemory(const Message& message) {
  auto received = std::make_unique<Received>(message);
  const size_t size = received->size;
  TORCH_CHECK(
      message.offset <= size && message.bytes <= size - message.offset,
      message.bytes,
      " bytes at offset ",
      message.offset,
      " do not lie in the shared allocation of ",
      size,
      " bytes");
  orPointerAttributes attributes;
  OPENREG_CHECK(orPointerGetAttributes(&attributes, received->base));
  received->device = static_cast<DeviceIndex>(attributes.device);
  const Device device(DeviceType::PrivateUse1, received->device);
  char* const data = static_cast<char*>(received->base) + message.offset;
  return {data, received.release(), &releaseReceived, device};
}

template <class T>
T fromBytes(const std::string& bytes, const char* what) {
  TORCH_CHECK(
      bytes.size() == sizeof(T),
      what,
      " expects byte-like object of size ",
      sizeof(T),
      ", but got ",
      bytes.size());
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <class T>
std::string toBytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

} // namespace

std::string sendStorage(const Storage& storage) {
  StorageImpl& impl = *storage.unsafeGetStorageImpl();
  TORCH_CHECK(
      storage.device_type() == DeviceType::PrivateUse1,
      "expected a storage of an openreg device, but got one of ",
      storage.device());
  if (impl.nbytes() == 0 || !impl.data()) {
    return "";
  }
  TORCH_CHECK(
      impl.data_ptr().get_deleter() != &releaseReceived,
      "Attempted to send OpenReg tensor received from another process; this is "
      "not currently supported. Consider cloning before sending.");
  getCurrentOpenRegStream(storage.device().index()).synchronize();
  collectSent();
  return toBytes(sentBlocks().send(impl));
}

Storage receiveStorage(const std::string& bytes) {
  const auto message = fromBytes<Message>(bytes, "a received tensor");
  DataPtr memory = sentBlocks().isOwn(message) ? sentBlocks().receive(message)
                                               : openMemory(message);
  return {
      Storage::use_byte_size_t(),
      message.bytes,
      std::move(memory),
      /*allocator=*/nullptr,
      /*resizable=*/false};
}

bool collectSent() {
  return sentBlocks().collect();
}

bool recordReceived(const DataPtr& data, const OpenRegStream& stream) {
  if (data.get_deleter() != &releaseReceived) {
    return false;
  }
  auto* received = static_cast<Received*>(data.get_context());
  std::lock_guard lock(received->mutex);
  received->streams.push_back(stream);
  return true;
}

bool isReceived(const void* pointer) {
  ReceivedRanges& ranges = receivedRanges();
  if (C10_LIKELY(ranges.count.load(std::memory_order_relaxed) == 0)) {
    return false;
  }
  const auto* byte = static_cast<const char*>(pointer);
  std::lock_guard lock(ranges.mutex);
  const auto after = ranges.bytes.upper_bound(byte);
  if (after == ranges.bytes.begin()) {
    return false;
  }
  const auto [base, size] = *std::prev(after);
  return byte < base + size;
}

// --- events -------------------------------------------------------------------

namespace {

orEvent_t handleOf(const Event& event) {
  return static_cast<orEvent_t>(event.eventId());
}

} // namespace

void createSharedEvent(Event& event, DeviceIndex device, bool timed) {
  const OpenRegGuard guard(device);
  orEvent_t created = nullptr;
  const unsigned flags = orEventInterprocess |
      (timed ? orEventEnableTiming : orEventDisableTiming);
  OPENREG_CHECK(orEventCreateWithFlags(&created, flags));
  adoptEvent(event, created, device);
}

std::string shareEvent(const Event& event) {
  orIpcEventHandle_t handle;
  OPENREG_CHECK(orIpcGetEventHandle(&handle, handleOf(event)));
  return toBytes(handle);
}

void openSharedEvent(
    Event& event,
    DeviceIndex device,
    const std::string& handle) {
  const OpenRegGuard guard(device);
  orEvent_t opened = nullptr;
  OPENREG_CHECK(orIpcOpenEventHandle(
      &opened, fromBytes<orIpcEventHandle_t>(handle, "orIpcEventHandle_t")));
  adoptEvent(event, opened, device);
}

} // namespace c10::openreg
