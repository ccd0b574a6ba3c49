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

/// To be called by each thread that runs calls. What it frees is reported with its own
/// calls: another thread might report it too late, after the driver has lent the same
/// memory again.
void keepFreedOfThisThread();

/// What the calling thread's calls, and threads without calls, have freed since this
/// was last called. The driver may reuse it.
std::vector<uint64_t> takeFreed();

} // namespace openreg::device
