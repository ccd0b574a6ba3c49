#include "executor/OutputMemory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace at::native::openreg {
namespace {

using c10::DataPtr;

// Every allocation of every CPU tensor looks at it, so it must not cost a call.
thread_local OutputScope* currentScope
    __attribute__((tls_model("initial-exec"))) = nullptr;

DeviceMemoryOwner owner;

/// Planned memory that tensors have now. Its owner is the output it was planned for,
/// so whoever frees such a tensor, and whenever, frees nothing.
class PlannedMemoryInUse {
 public:
  void add(void* pointer) {
    const std::lock_guard lock(mutex_);
    pointers_.push_back(pointer);
  }
  bool remove(const void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(pointers_, pointer);
    if (found == pointers_.end()) {
      return false;
    }
    pointers_.erase(found);
    return true;
  }
  bool has(const void* pointer) {
    const std::lock_guard lock(mutex_);
    return std::ranges::find(pointers_, pointer) != pointers_.end();
  }

  static PlannedMemoryInUse& instance() {
    static auto* memory = new PlannedMemoryInUse;
    return *memory;
  }

 private:
  std::mutex mutex_;
  std::vector<void*> pointers_; // a few: those of kernels that run now
};

void freeSourceMemory(void* pointer) {
  owner.free(pointer);
}

void returnPlannedMemory(void* pointer) {
  PlannedMemoryInUse::instance().remove(pointer);
}

} // namespace

/// The CPU's allocator, with a way out to device memory.
///
/// A DataPtr's context is its pointer, which raw_allocate() relies on.
class OutputAllocator final : public c10::Allocator {
 public:
  DataPtr allocate(size_t bytes) override {
    if (OutputScope* scope = currentScope; C10_UNLIKELY(scope != nullptr)) {
      if (void* planned = scope->takePlanned(bytes)) {
        PlannedMemoryInUse::instance().add(planned);
        return {planned, planned, &returnPlannedMemory, c10::kCPU};
      }
      if (scope->source_ && bytes > scope->hostBytes_) {
        if (DataPtr memory = allocateFrom(*scope->source_, bytes)) {
          return memory;
        }
      }
      if (C10_UNLIKELY(scope->log_ != nullptr)) {
        DataPtr memory = cpu_->allocate(bytes);
        scope->log_->push_back({memory.get(), bytes});
        return memory;
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
      if (!pointer || !owner.owns(pointer)) {
        instance().cpu_->raw_deleter()(pointer);
      } else if (!PlannedMemoryInUse::instance().remove(pointer)) {
        owner.free(pointer);
      }
    };
  }

  static OutputAllocator& instance() {
    static auto* allocator = new OutputAllocator;
    return *allocator;
  }

 private:
  c10::Allocator* const cpu_ = c10::GetCPUAllocator();
};

OutputScope::OutputScope(
    DeviceMemorySource* source,
    size_t hostBytes,
    std::span<const PlannedMemory> planned)
    : outer_(std::exchange(currentScope, this)),
      source_(source),
      hostBytes_(hostBytes),
      planned_(planned.begin(), planned.end()) {}

OutputScope::~OutputScope() {
  currentScope = outer_;
}

OutputScope* OutputScope::current() {
  return currentScope;
}

void* OutputScope::takePlanned(size_t bytes) {
  void* taken = nullptr;
  for (PlannedMemory& memory : planned_) {
    if (memory.bytes != bytes || bytes == 0) {
      continue;
    }
    if (memory.earlier > 0) {
      --memory.earlier;
    } else if (!taken) {
      taken = memory.pointer;
      memory.bytes = 0;
    }
  }
  return taken;
}

c10::SmallVector<PlannedMemory, 2> OutputScope::takeAllPlanned() {
  c10::SmallVector<PlannedMemory, 2> taken;
  for (PlannedMemory& memory : planned_) {
    if (memory.bytes != 0) {
      taken.push_back(memory);
      memory.bytes = 0;
    }
  }
  return taken;
}

void installOutputAllocator(const DeviceMemoryOwner& installed) {
  owner = installed;
  constexpr uint8_t kAbovePyTorchs = 10;
  c10::SetCPUAllocator(&OutputAllocator::instance(), kAbovePyTorchs);
}

c10::Allocator* outputAllocator() {
  return &OutputAllocator::instance();
}

DataPtr allocateFrom(DeviceMemorySource& source, size_t bytes) {
  void* pointer = source.tryAllocate(bytes);
  return pointer ? DataPtr(pointer, pointer, &freeSourceMemory, c10::kCPU)
                 : DataPtr();
}

bool isSourceMemory(const DataPtr& memory) {
  return memory.get_deleter() == &freeSourceMemory;
}

bool isPlannedMemory(const DataPtr& memory) {
  return memory.get_deleter() == &returnPlannedMemory;
}

bool isPlannedMemoryKept(std::span<const PlannedMemory> planned) {
  return std::ranges::any_of(planned, [](const PlannedMemory& memory) {
    return PlannedMemoryInUse::instance().has(memory.pointer);
  });
}

} // namespace at::native::openreg
