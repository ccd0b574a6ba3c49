// What streams and pinned memory add to what is registered.
#include "streams.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

namespace mini {

REGISTER_HOST_ALLOCATOR(DeviceType::PrivateUse1, &pinnedAllocator)

// The memory is in use by another stream, too.
void record_stream(at::Tensor& self, c10::Stream stream) {
  const c10::impl::VirtualGuardImpl guard(self.device().type());
  guard.recordDataPtrOnStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("record_stream", record_stream);
}

TORCH_LIBRARY_FRAGMENT(mini, m) {
  m.def("is_in_bad_fork", [] { return miniIsInBadFork(); });
}

} // namespace mini
