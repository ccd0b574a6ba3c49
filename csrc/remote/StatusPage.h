// What a device process tells about itself to whoever may look (same user):
// `python -m torch_openreg.device` reads it.
#pragma once

#include <atomic>
#include <cstdint>

namespace c10::openreg::remote {

// docs:begin status-page
struct StatusPage {
  static constexpr uint32_t kMagic = 0x4f524431; // "ORD1"
  static constexpr uint32_t kSlots = 62;

  /// A thread that serves a channel.
  struct Slot {
    std::atomic<uint32_t> used;
    char running[60]; // the operator, or ""
  };

  std::atomic<uint32_t> magic;
  int32_t device;
  int32_t driver; // process id
  std::atomic<uint32_t> channels;
  std::atomic<uint64_t> calls;
  uint64_t unused[5];
  Slot slots[kSlots];
};
// docs:end status-page
static_assert(sizeof(StatusPage) == 64 * (1 + StatusPage::kSlots));

/// Descriptors of a device process, from its start: whoever reads the status page
/// finds it, and the memory, in /proc.
inline constexpr int kControlDescriptor = 3;
inline constexpr int kMemoryDescriptor = 4;
inline constexpr int kStatusDescriptor = 5;

} // namespace c10::openreg::remote
