// The memory of the device as kernels here see it: mapped once, handed out by the
// driver.
//
// Threads: any, after installDriverMemory().
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace openreg::device {

/// Notes where the device's memory is mapped, and makes CPU tensors come from it inside
/// of an OutputScope. To be called once, before any kernel runs.
void installDriverMemory(char* base, uint64_t bytes);

char* memoryBase();
uint64_t memoryBytes();

/// Whether it is memory that was planned or asked for, and where.
std::optional<uint64_t> offsetOf(const c10::DataPtr& memory);

/// To be called by each thread that runs calls: what it frees is told with its calls.
/// Told by another thread it might come late, when the driver has lent the same memory
/// anew.
void keepFreedOfThisThread();

/// What the calling thread's calls have freed since the last call of this, and what
/// threads without calls have: the driver's to reuse.
std::vector<uint64_t> takeFreed();

} // namespace openreg::device
