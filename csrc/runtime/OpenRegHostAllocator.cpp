#include "runtime/OpenRegHostAllocator.h"

#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegGuard.h"

#include <cstring>

namespace c10::openreg {
namespace {

// PyTorch's cache does the work; it asks for memory and events here.
struct HostCache final
    : at::CachingHostAllocatorImpl<OpenRegStream, OpenRegEvent> {
  void copy_data(void* dest, const void* src, size_t count) const override {
    std::memcpy(dest, src, count);
  }

 private:
  void allocate_host_memory(size_t size, void** pointer) override {
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
    return event.query();
  }

  OpenRegStream get_current_stream() const override {
    return getCurrentOpenRegStream();
  }
};

void deleteHostBlock(void* block);

struct OpenRegHostAllocator final
    : at::CachingHostAllocatorInterface<HostCache, deleteHostBlock> {};

OpenRegHostAllocator& hostAllocator() {
  static auto* allocator = new OpenRegHostAllocator;
  return *allocator;
}

void deleteHostBlock(void* block) {
  hostAllocator().free(block);
}

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &hostAllocator())

} // namespace

at::HostAllocator* getOpenRegHostAllocator() {
  return &hostAllocator();
}

bool isPinned(const void* pointer) {
  orPointerAttributes attributes;
  const orError_t status = orPointerGetAttributes(&attributes, pointer);
  orGetLastError(); // a freed device address is an answer too
  return status == orSuccess && attributes.type == orMemoryTypeHost;
}

} // namespace c10::openreg
