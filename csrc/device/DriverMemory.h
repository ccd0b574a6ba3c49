// The memory of the device as kernels here see it: mapped once, handed out by the
// driver.
#pragma once

#include "remote/Wire.h"

#include <c10/core/Allocator.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace openreg::device {

/// Maps the device's memory and makes CPU tensors come from it where the driver
/// wants them to. To be called once, before any kernel runs.
void installDriverMemory(char* base, uint64_t bytes);

char* memoryBase();
uint64_t memoryBytes();

/// PyTorch's CPU allocator as it is then: also for storages that kernels may resize.
c10::Allocator* driverAllocator();

/// While it lives, allocations of the calling thread come to lie in `planned` memory
/// that has as many bytes; those of more than `hostBytes` bytes are asked for by
/// `ask`, which gives an offset into the memory or nothing.
class [[nodiscard]] AskingScope {
 public:
  using Ask = std::function<std::optional<uint64_t>(uint64_t bytes)>;

  AskingScope(
      uint64_t hostBytes,
      Ask ask,
      std::vector<c10::openreg::remote::WireSlot> planned = {});
  ~AskingScope();
  AskingScope(const AskingScope&) = delete;
  AskingScope& operator=(const AskingScope&) = delete;

 private:
  friend class DriverAllocator;

  char* takePlanned(uint64_t bytes);
  bool isPlanned(const void* pointer) const;

  std::vector<c10::openreg::remote::WireSlot> planned_; // 0 bytes: taken
  const uint64_t hostBytes_;
  const Ask ask_;
  AskingScope* const outer_;
};

/// Whether it is memory that was planned or asked for, and where.
std::optional<uint64_t> offsetOf(const c10::DataPtr& memory);

/// What the calling thread's calls have freed since the last call of this, and what
/// threads without calls have: the driver's to reuse.
std::vector<uint64_t> takeFreed();

} // namespace openreg::device
