// Pinned host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace openreg {

/// Which ranges of host memory are pinned.
///
/// Threads: any may call anything.
class HostMemory {
 public:
  enum class Origin { Allocated, Registered };

  /// Notes a range. Returns false if it overlaps another.
  bool add(const void* pointer, size_t bytes, Origin origin);

  /// Forgets the range that starts there; its size, if it has that origin.
  std::optional<size_t> remove(const void* pointer, Origin origin);

  bool isStart(const void* pointer, Origin origin) const;

  /// Whether all bytes are pinned.
  bool contains(const void* pointer, size_t bytes) const;

 private:
  struct Range {
    size_t bytes;
    Origin origin;
  };
  using Ranges = std::map<uintptr_t, Range>;

  mutable std::mutex mutex_;
  Ranges ranges_;
};

} // namespace openreg
