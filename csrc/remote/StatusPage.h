// What a device process reports about itself to other processes of its user: `python -m
// torch_openreg.device` reads it.
#pragma once

#include <atomic>
#include <cstdint>

namespace c10::openreg::remote {

// docs:begin status-page
/// Threads: a thread of the device process writes its slot, the driver what it knows,
/// and anyone may read; `running` may be read while it changes.
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

  // What the driver knows, ten times a second.
  std::atomic<uint64_t> memoryUsed; // bytes allocated on the device
  std::atomic<uint64_t> memoryTotal;
  std::atomic<uint64_t> tasks; // not finished yet
  std::atomic<uint64_t> streams; // with such tasks

  uint64_t unused;
  Slot slots[kSlots];
};
// docs:end status-page
static_assert(sizeof(StatusPage) == 64 * (1 + StatusPage::kSlots));

/// Descriptors of a device process, from its start: whoever reads the status page
/// finds it in /proc.
inline constexpr int kControlDescriptor = 3;
inline constexpr int kStatusDescriptor = 4;

} // namespace c10::openreg::remote
