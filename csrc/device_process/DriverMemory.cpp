#include "device_process/DriverMemory.h"

#include "executor/OutputMemory.h"

#include <mutex>
#include <utility>

namespace openreg::device {
namespace {

char* base = nullptr;
uint64_t size = 0;

/// Freed by threads that serve no calls, such as those of OpenMP.
struct FreedOffsets {
  std::mutex mutex;
  std::vector<uint64_t> offsets;
};

FreedOffsets& freed() {
  static auto* all = new FreedOffsets;
  return *all;
}

thread_local std::vector<uint64_t>* freedByCalls = nullptr;

bool isOurs(const void* pointer) {
  const auto* byte = static_cast<const char*>(pointer);
  return byte >= base && byte < base + size;
}

void noteFreed(void* pointer) {
  const auto offset = static_cast<uint64_t>(static_cast<char*>(pointer) - base);
  if (freedByCalls) {
    freedByCalls->push_back(offset);
    return;
  }
  const std::lock_guard lock(freed().mutex);
  freed().offsets.push_back(offset);
}

} // namespace

void installDriverMemory(char* memory, uint64_t bytes) {
  base = memory;
  size = bytes;
  at::native::openreg::installOutputAllocator({&isOurs, &noteFreed});
}

char* memoryBase() {
  return base;
}

uint64_t memoryBytes() {
  return size;
}

std::optional<uint64_t> offsetOf(const c10::DataPtr& memory) {
  return at::native::openreg::isSourceMemory(memory) ||
          at::native::openreg::isPlannedMemory(memory)
      ? std::optional(
            static_cast<uint64_t>(static_cast<char*>(memory.get()) - base))
      : std::nullopt;
}

void keepFreedOfThisThread() {
  thread_local std::vector<uint64_t> freedHere;
  freedByCalls = &freedHere;
}

std::vector<uint64_t> takeFreed() {
  std::vector<uint64_t> offsets;
  if (freedByCalls) {
    std::swap(offsets, *freedByCalls);
  }
  const std::lock_guard lock(freed().mutex);
  offsets.insert(offsets.end(), freed().offsets.begin(), freed().offsets.end());
  freed().offsets.clear();
  return offsets;
}

} // namespace openreg::device
