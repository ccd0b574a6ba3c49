// Memory that the driver lends to a device process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace c10::openreg::remote {

/// Memory that kernels in the device process asked for, for their outputs: by its
/// offset in the device's memory, with the c10::DataPtr that owns it.
///
/// Threads: any may call anything.
class MemoryLoans {
 public:
  template <class Owner>
  void add(uint64_t offset, size_t bytes, Owner owner) {
    auto kept = std::make_shared<Owner>(std::move(owner));
    const std::lock_guard lock(mutex_);
    loans_.insert_or_assign(offset, Loan{std::move(kept), bytes});
  }

  /// Returns the owner that was added, or an empty one if there are not that many
  /// bytes.
  template <class Owner>
  Owner take(uint64_t offset, size_t bytes) {
    const std::shared_ptr<void> kept = extract(offset, bytes);
    return kept ? std::move(*static_cast<Owner*>(kept.get())) : Owner();
  }

  /// Lets the owner go.
  void drop(uint64_t offset) {
    extract(offset, 0);
  }

 private:
  struct Loan {
    std::shared_ptr<void> owner;
    size_t bytes;
  };

  std::shared_ptr<void> extract(uint64_t offset, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = loans_.find(offset);
    if (found == loans_.end() || found->second.bytes < bytes) {
      return nullptr;
    }
    std::shared_ptr<void> owner = std::move(found->second.owner);
    loans_.erase(found);
    return owner;
  }

  std::mutex mutex_;
  std::unordered_map<uint64_t, Loan> loans_;
};

} // namespace c10::openreg::remote
