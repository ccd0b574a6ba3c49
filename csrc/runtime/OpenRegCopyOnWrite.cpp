#include "runtime/OpenRegCopyOnWrite.h"

#include "runtime/OpenRegDeviceAllocator.h"

#include <c10/core/impl/COW.h>
#include <c10/core/impl/COWDeleter.h>

namespace c10::openreg {

using impl::cow::COWDeleterContext;

namespace {

DataPtr copyOf(const StorageImpl& storage) {
  auto& allocator = getOpenRegDeviceAllocator();
  const DeviceIndex device = storage.device().index();
  const OpenRegStream stream = getCurrentOpenRegStream(device);
  DataPtr copy = allocator.allocate(storage.nbytes(), stream);
  allocator.copy_data(copy.get(), storage.data(), storage.nbytes());
  // Whoever frees the memory meanwhile may have used it in another stream only.
  allocator.recordStream(storage.data_ptr(), stream);
  return copy;
}

} // namespace

// c10 has a function for it, but it forgets a reference if it runs out of memory, and
// takes memory of the current device.
void detail::takeOwnMemory(StorageImpl& storage) {
  const DataPtr& shared = storage.data_ptr();
  if (storage.device_type() != kDeviceType ||
      !impl::cow::is_cow_data_ptr(shared)) {
    storage.mutable_data();
    return;
  }
  auto* context =
      shared.cast_context<COWDeleterContext>(&impl::cow::cow_deleter);
  DataPtr own;
  auto reference = context->decrement_refcount();
  if (auto* last = std::get_if<COWDeleterContext::LastReference>(&reference)) {
    void* pointer = last->release();
    own = {pointer, pointer, last->get_deleter(), storage.device()};
  } else {
    try {
      own = copyOf(storage);
    } catch (...) {
      context->increment_refcount();
      throw;
    }
  }
  storage._mutable_data_ptr_no_checks().release_context();
  storage.set_data_ptr_noswap(std::move(own));
  storage.clear_materializer();
}

} // namespace c10::openreg
