#include "device/DriverMemory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
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

// The driver's, whatever becomes of the kernel's tensor.
void keepPlanned(void* /*pointer*/) {}

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
    if (char* planned = scope ? scope->takePlanned(bytes) : nullptr) {
      return {planned, planned, &keepPlanned, c10::kCPU};
    }
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
        if (!scope || !scope->isPlanned(pointer)) {
          noteFreed(pointer);
        }
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

AskingScope::AskingScope(
    uint64_t hostBytes,
    Ask ask,
    std::vector<c10::openreg::remote::WireSlot> planned)
    : planned_(std::move(planned)),
      hostBytes_(hostBytes),
      ask_(std::move(ask)),
      outer_(std::exchange(scope, this)) {
  thread_local std::vector<uint64_t> freedHere;
  freedByCalls = &freedHere;
}

AskingScope::~AskingScope() {
  scope = outer_;
}

char* AskingScope::takePlanned(uint64_t bytes) {
  for (auto& slot : planned_) {
    if (bytes != 0 && slot.bytes == bytes) {
      slot.bytes = 0;
      return base + slot.offset;
    }
  }
  return nullptr;
}

bool AskingScope::isPlanned(const void* pointer) const {
  return std::any_of(planned_.begin(), planned_.end(), [&](const auto& slot) {
    return base + slot.offset == pointer;
  });
}

std::optional<uint64_t> offsetOf(const c10::DataPtr& memory) {
  const auto deleter = memory.get_deleter();
  return deleter == &noteFreed || deleter == &keepPlanned
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
