#include "runtime/OpenRegPluggedSegments.h"

#include <mutex>
#include <unordered_map>

namespace c10::openreg {
namespace {

struct Segment {
  PluggedAllocator allocator;
  size_t bytes;
  int device;
  orStream_t stream;
};

struct Segments {
  std::mutex mutex;
  std::unordered_map<void*, Segment> byPointer;
};

// Never destroyed: tensors may outlive static destructors.
Segments& segments() {
  static auto* all = new Segments;
  return *all;
}

} // namespace

void* mapPluggedSegment(
    const PluggedAllocator& allocator,
    size_t bytes,
    int device,
    orStream_t stream) {
  void* const pointer =
      allocator.allocate(static_cast<ssize_t>(bytes), device, stream);
  if (pointer) {
    const std::lock_guard lock(segments().mutex);
    segments().byPointer[pointer] = {allocator, bytes, device, stream};
  }
  return pointer;
}

bool unmapPluggedSegment(void* segment) {
  Segment was;
  {
    const std::lock_guard lock(segments().mutex);
    auto found = segments().byPointer.extract(segment);
    if (found.empty()) {
      return false;
    }
    was = found.mapped();
  }
  was.allocator.free(
      segment, static_cast<ssize_t>(was.bytes), was.device, was.stream);
  return true;
}

} // namespace c10::openreg
