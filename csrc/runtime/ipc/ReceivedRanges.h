// Where memory of other processes is mapped. Free of c10.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>

namespace c10::openreg::ipc {

/// Ranges of device addresses. One may be there more than once.
///
/// Threads: any may call anything.
class ReceivedRanges {
 public:
  void add(const void* base, size_t bytes);
  void remove(const void* base);

  /// Whether an address lies in one of them.
  bool contain(const void* pointer) const;

 private:
  mutable std::mutex mutex_;
  std::multimap<const char*, size_t> bytes_; // by the first address
  std::atomic<size_t> count_{0};
};

/// Those of this process. Never destroyed: tensors may outlive static destructors.
ReceivedRanges& receivedRanges();

} // namespace c10::openreg::ipc
