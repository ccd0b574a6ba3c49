// Finds results that depend on memory that nobody wrote to.
#pragma once

#include "sanitizer/UnwrittenBytes.h"

#include <optional>
#include <span>
#include <string>

namespace c10::openreg::sanitizer {

/// A piece of work that reads such memory is a finding if it computes with it or gives
/// it to the host. What only copies passes it on. Work whose reads are not told exactly,
/// that of other libraries and of collectives, is taken to write and not to read.
///
/// Threads: one at a time.
class InitChecker {
 public:
  void allocate(Range range) {
    unwritten_.add(range);
  }
  void free(Range range) {
    unwritten_.remove(range);
  }
  /// Somebody has written to it, whoever that was.
  void write(Range range) {
    unwritten_.remove(range);
  }

  /// The unwritten bytes that the work depends on; they count as written afterwards, so
  /// that what follows from them is not found again.
  std::optional<Range> run(
      const std::string& name,
      std::span<const MemoryUse> uses);

 private:
  std::optional<Range> findUnwritten(
      const std::string& name,
      std::span<const MemoryUse> uses) const;
  void passOn(std::span<const MemoryUse> uses);
  void writeAll(std::span<const MemoryUse> uses);

  UnwrittenBytes unwritten_;
};

} // namespace c10::openreg::sanitizer
