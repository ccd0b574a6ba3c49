#include "runtime/OpenRegHostAllocator.h"

#include "runtime/OpenRegCapture.h"
#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegObserver.h"

#include <cstring>
#include <mutex>
#include <unordered_map>

namespace c10::openreg {
namespace {

// PyTorch's cache does the work; it asks for memory and events here.
//
// It hands out a pointer and a block, and wants the block back. Here the pointer
// stands for both, as raw_allocate() asks for.
struct HostCache final
    : at::CachingHostAllocatorImpl<OpenRegStream, OpenRegEvent> {
  std::pair<void*, void*> allocate(size_t size) override {
    const auto [pointer, block] = CachingHostAllocatorImpl::allocate(size);
    if (block) {
      const std::lock_guard lock(mutex_);
      blocks_[pointer] = block;
    }
    if (block) {
      observe(&RuntimeObserver::onPin, pointer, size);
    }
    return {pointer, pointer};
  }

  void free(void* pointer) override {
    void* block = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = blocks_.extract(pointer)) {
        block = found.mapped();
      }
    }
    if (pointer && !block) {
      warnQuietly(c10::str("there is no pinned allocation at ", pointer));
    }
    observe(&RuntimeObserver::onUnpin, pointer);
    CachingHostAllocatorImpl::free(block);
  }

  // `pointer` may lie anywhere in the allocation, unless `context` is not ours.
  bool record_event(void* pointer, void* context, Stream stream) override {
    return CachingHostAllocatorImpl::record_event(context, nullptr, stream) ||
        CachingHostAllocatorImpl::record_event(pointer, nullptr, stream);
  }

  void copy_data(void* dest, const void* src, size_t count) const override {
    std::memcpy(dest, src, count);
  }

 private:
  // Pinned memory and its events are no part of what a stream captures meanwhile.
  void allocate_host_memory(size_t size, void** pointer) override {
    const RelaxedCapture relaxed;
    check_not_broken(current_device()); // as CUDA, whose context pins it
    OPENREG_CHECK(orMallocHost(pointer, size));
  }

  void free_block(at::HostBlock<OpenRegStream>* block) override {
    OPENREG_CHECK_WARN(orFreeHost(block->ptr_));
  }

  void record_stream(
      std::optional<std::vector<OpenRegEvent>>& events,
      OpenRegStream stream) override {
    events->emplace_back();
    try {
      events->back().record(stream);
    } catch (const Error&) {
      // A broken device runs nothing any more: the event counts as happened, and
      // freeing a tensor does not throw.
    }
  }

  bool query_event(OpenRegEvent& event) override {
    const RelaxedCapture relaxed;
    // No wait of the program's, so no observer is told.
    return !event.isCreated() || OPENREG_IS_READY(orEventQuery(event.event()));
  }

  OpenRegStream get_current_stream() const override {
    return getCurrentOpenRegStream();
  }

  std::mutex mutex_;
  std::unordered_map<void*, void*> blocks_; // that are allocated
};

void deletePinned(void* pointer);

struct OpenRegHostAllocator final
    : at::CachingHostAllocatorInterface<HostCache, deletePinned> {
  DeleterFnPtr raw_deleter() const override {
    return &deletePinned;
  }
};

OpenRegHostAllocator& hostAllocator() {
  static auto* allocator = new OpenRegHostAllocator;
  return *allocator;
}

void deletePinned(void* pointer) {
  hostAllocator().free(pointer);
}

const bool registered = [] {
  at::setHostAllocator(kDeviceType, &hostAllocator());
  return true;
}();

} // namespace

at::HostAllocator* getOpenRegHostAllocator() {
  return &hostAllocator();
}

} // namespace c10::openreg
