#include "runtime/ipc/Ledger.h"

#include <cerrno>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace c10::openreg {

struct IpcLedger::Page {
  std::atomic<uint64_t> mark;
  std::atomic<uint32_t> onTheirWay[kMostBlocks];
};

namespace {

// For this descriptor's file description, whichever thread asks.
int changeLock(int file, int command, short type, uint32_t block) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = block;
  range.l_len = 1;
  const int status = fcntl(file, command, &range);
  return status == 0 ? range.l_type : -1;
}

} // namespace

bool IpcLedger::create() {
  file_ = memfd_create("openreg ledger", MFD_CLOEXEC);
  // Readable by its user alone.
  return file_ >= 0 && fchmod(file_, S_IRUSR | S_IWUSR) == 0 &&
      ftruncate(file_, sizeof(Page)) == 0;
}

bool IpcLedger::open() {
  const std::string path = "/proc/" + std::to_string(address_.process) +
      "/fd/" + std::to_string(address_.descriptor);
  file_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status {};
  return file_ >= 0 && fstat(file_, &status) == 0 &&
      status.st_dev == address_.device && status.st_ino == address_.inode;
}

bool IpcLedger::map() {
  void* const mapped = mmap(
      nullptr,
      sizeof(Page),
      PROT_READ | PROT_WRITE,
      MAP_SHARED | MAP_NORESERVE,
      file_,
      0);
  if (mapped == MAP_FAILED) {
    return false;
  }
  page_ = static_cast<Page*>(mapped);
  return true;
}

void IpcLedger::close() noexcept {
  if (page_) {
    munmap(page_, sizeof(Page));
  }
  if (file_ >= 0) {
    ::close(file_);
  }
}

IpcLedger::IpcLedger() {
  if (!create() || !map()) {
    const int cause = errno;
    close();
    throw std::system_error(
        cause,
        std::generic_category(),
        "a ledger for shared memory cannot be made");
  }
  std::random_device random;
  struct stat status {};
  fstat(file_, &status);
  address_ = {
      getpid(),
      file_,
      status.st_dev,
      status.st_ino,
      uint64_t{random()} << 32 | random()};
  page_->mark.store(address_.mark);
}

IpcLedger::IpcLedger(const Address& address) : address_(address) {
  if (!open() || !map() || page_->mark.load() != address.mark) {
    close();
    throw std::runtime_error(
        "process " + std::to_string(address.process) +
        ", which sent the tensor, has ended, belongs to another user or cannot "
        "be seen from here. It must live until the tensor has been received.");
  }
}

void IpcLedger::send(uint32_t block) {
  page_->onTheirWay[block].fetch_add(1);
}

void IpcLedger::arrive(uint32_t block) {
  // Bytes that are received a second time have brought no reference.
  auto& count = page_->onTheirWay[block];
  for (uint32_t before = count.load();
       before > 0 && !count.compare_exchange_weak(before, before - 1);) {
  }
}

void IpcLedger::lock(uint32_t block) {
  if (changeLock(file_, F_OFD_SETLK, F_RDLCK, block) < 0) {
    throw std::system_error(
        errno,
        std::generic_category(),
        "a shared block cannot be marked as used");
  }
}

void IpcLedger::unlock(uint32_t block) noexcept {
  changeLock(file_, F_OFD_SETLK, F_UNLCK, block);
}

bool IpcLedger::inUse(uint32_t block) const {
  // In this order: a reference arrives after it is locked.
  return page_->onTheirWay[block].load() > 0 ||
      changeLock(file_, F_OFD_GETLK, F_WRLCK, block) != F_UNLCK;
}

// --- references ---------------------------------------------------------------

/// A ledger that is open in this process, and how often it holds each block.
struct IpcReference::Open {
  explicit Open(const IpcLedger::Address& address)
      : ledger(address), process(getpid()) {}

  IpcLedger ledger;
  const pid_t process;
  std::mutex mutex;
  std::map<uint32_t, int> held;
};

IpcReference::IpcReference(const IpcLedger::Address& from, uint32_t block)
    : block_(block) {
  if (block >= IpcLedger::kMostBlocks) {
    throw std::runtime_error(
        "block " + std::to_string(block) + " of a ledger is not in [0, " +
        std::to_string(IpcLedger::kMostBlocks) + ")");
  }
  static std::mutex mutex;
  static auto* const ledgers = new std::map<uint64_t, std::weak_ptr<Open>>;
  {
    std::lock_guard lock(mutex);
    std::weak_ptr<Open>& known = (*ledgers)[from.mark];
    open_ = known.lock();
    if (!open_) {
      std::erase_if(*ledgers, [&](const auto& entry) {
        return entry.first != from.mark && entry.second.expired();
      });
      open_ = std::make_shared<Open>(from);
      known = open_;
    }
  }
  std::lock_guard lock(open_->mutex);
  int& held = open_->held[block];
  if (held == 0) {
    open_->ledger.lock(block);
  }
  ++held;
  open_->ledger.arrive(block);
}

IpcReference::~IpcReference() {
  // A forked child shares its parent's locks and must leave them alone.
  if (getpid() != open_->process) {
    return;
  }
  std::lock_guard lock(open_->mutex);
  if (const auto held = open_->held.find(block_); --held->second == 0) {
    open_->held.erase(held);
    open_->ledger.unlock(block_);
  }
}

} // namespace c10::openreg
