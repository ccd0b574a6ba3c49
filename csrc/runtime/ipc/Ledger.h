// Who in other processes still uses memory of this one.
//
// Like CUDA, libopenreg shares whole segments and does not count who uses a block. So
// the owner of memory keeps a ledger, a file that other processes map. Free of c10.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace c10::openreg {

// docs:begin ipc-ledger
/// The ledger's file. Each block that was sent has a number. A reference to it is either
/// on its way, which is a count in the file, or held by a process, which is a
/// lock on that byte of the file: the system releases the locks of a process
/// when it ends, in whatever way.
///
/// Threads: any may call anything, of any process.
// docs:end ipc-ledger
class IpcLedger {
 public:
  /// How a ledger is found by other processes.
  struct Address {
    int32_t process;
    int32_t descriptor;
    uint64_t device; // of the file
    uint64_t inode;
    uint64_t mark; // a random number in the file: it is that ledger
  };
  static constexpr uint32_t kMostBlocks = 1 << 20;

  /// A new ledger of this process.
  IpcLedger();
  /// That of another process. Throws if it cannot be opened.
  explicit IpcLedger(const Address& address);
  IpcLedger(const IpcLedger&) = delete;
  IpcLedger& operator=(const IpcLedger&) = delete;
  ~IpcLedger() {
    close();
  }

  const Address& address() const {
    return address_;
  }

  /// Counts one reference more on its way, or one less.
  void send(uint32_t block);
  void arrive(uint32_t block);

  /// Says that this process holds a reference, or that it does not any more.
  void lock(uint32_t block);
  void unlock(uint32_t block) noexcept;

  /// Whether there is any reference, as the ledger's owner sees it.
  bool inUse(uint32_t block) const;

 private:
  struct Page;

  bool create();
  bool open();
  bool map();
  void close() noexcept;

  int file_ = -1;
  Page* page_ = nullptr;
  Address address_{};
};

/// A reference to a block of another process. Those to the ledgers of one process
/// share a file descriptor, which goes with the last of them.
///
/// Threads: any may make and destroy references, to the same ledger too.
class IpcReference {
 public:
  /// Takes over a reference that was on its way. Throws if the other process is
  /// gone.
  IpcReference(const IpcLedger::Address& from, uint32_t block);
  IpcReference(const IpcReference&) = delete;
  IpcReference& operator=(const IpcReference&) = delete;
  ~IpcReference();

 private:
  struct Open;
  std::shared_ptr<Open> open_;
  const uint32_t block_;
};

} // namespace c10::openreg
