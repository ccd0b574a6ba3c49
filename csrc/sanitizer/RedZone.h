// Bytes behind a block that no kernel may write to.
#pragma once

#include "sanitizer/Work.h"

#include <atomic>
#include <memory>
#include <optional>

namespace c10::openreg::sanitizer {

/// Holds a pattern from its first use on. A write behind the end of the block, or
/// before the start of the next one, changes the pattern.
///
/// Threads: fill() and takeDamage() are called in the order of a stream, retire() by the
/// host at any time.
class RedZone {
 public:
  /// Kernels find the range at `bytes`.
  RedZone(Range range, unsigned char* bytes) : range_(range), bytes_(bytes) {}
  RedZone(const RedZone&) = delete;
  RedZone& operator=(const RedZone&) = delete;

  const Range& range() const {
    return range_;
  }
  void fill();
  /// The bytes that are not as fill() left them, which are filled again; none if it was
  /// not filled yet.
  std::optional<Range> takeDamage();

  /// Its block was freed: work of other streams may use the memory for something else.
  void retire() {
    isRetired_ = true;
  }
  bool isRetired() const {
    return isRetired_;
  }

 private:
  const Range range_;
  unsigned char* const bytes_;
  std::atomic<bool> isFilled_{false};
  std::atomic<bool> isRetired_{false};
};
using RedZonePtr = std::shared_ptr<RedZone>;

} // namespace c10::openreg::sanitizer
