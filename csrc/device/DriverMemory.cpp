#include "device/DriverMemory.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <mutex>
#include <utility>

namespace openreg::device {
namespace {

char* base = nullptr;
uint64_t size = 0;

thread_local AskingScope* scope = nullptr;

/// By threads that serve no calls, such as those of OpenMP.
struct Freed {
  std::mutex mutex;
  std::vector<uint64_t> offsets;
};

Freed& freed() {
  static auto* all = new Freed;
  return *all;
}

bool isOurs(const void* pointer) {
  const auto* byte = static_cast<const char*>(pointer);
  return byte >= base && byte < base + size;
}

// What a call freed is told with that call: told by another thread it might come late,
// when the driver has lent the same memory anew.
thread_local std::vector<uint64_t>* freedByCalls = nullptr;

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

class DriverAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (scope && bytes > scope->hostBytes_) {
      if (const auto offset = scope->ask_(bytes)) {
        char* pointer = base + *offset;
        // Callers of raw_allocate() rely on the context being the pointer.
        return {pointer, pointer, &noteFreed, c10::kCPU};
      }
    }
    return cpu_->allocate(bytes);
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  // raw_deallocate() has nothing but the pointer.
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* pointer) {
      if (isOurs(pointer)) {
        noteFreed(pointer);
      } else {
        instance().cpu_->raw_deleter()(pointer);
      }
    };
  }

  static DriverAllocator& instance() {
    static auto* allocator = new DriverAllocator;
    return *allocator;
  }

 private:
  c10::Allocator* const cpu_ = c10::GetCPUAllocator();
};

void installDriverMemory(char* memory, uint64_t bytes) {
  base = memory;
  size = bytes;
  constexpr uint8_t kAbovePyTorchs = 10;
  c10::SetCPUAllocator(&DriverAllocator::instance(), kAbovePyTorchs);
}

char* memoryBase() {
  return base;
}

uint64_t memoryBytes() {
  return size;
}

c10::Allocator* driverAllocator() {
  return &DriverAllocator::instance();
}

AskingScope::AskingScope(uint64_t hostBytes, Ask ask)
    : hostBytes_(hostBytes),
      ask_(std::move(ask)),
      outer_(std::exchange(scope, this)) {
  thread_local std::vector<uint64_t> freedHere;
  freedByCalls = &freedHere;
}

AskingScope::~AskingScope() {
  scope = outer_;
}

std::optional<uint64_t> askedOffset(const c10::DataPtr& memory) {
  return memory.get_deleter() == &noteFreed
      ? std::optional(
            static_cast<uint64_t>(static_cast<char*>(memory.get()) - base))
      : std::nullopt;
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
