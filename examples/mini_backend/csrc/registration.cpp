// What is registered with PyTorch when the library is loaded.
#include "parts.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <future>

namespace mini {
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)
Memory allocator;
REGISTER_ALLOCATOR(DeviceType::PrivateUse1, &allocator)
const bool hooksRegistered =
    (at::RegisterPrivateUse1HooksInterface(new Hooks), true);
TORCH_LIBRARY(mini, m) {
  m.def("manual_seed_all", [](int64_t seed) {
    for (auto& generator : defaultGenerators) {
      generator.set_current_seed(static_cast<uint64_t>(seed));
    }
  });
  // Autograd has a thread per device, which may still free what the last pass has
  // captured when Python ends. One more pass, without Python, waits for that.
  m.def("settle_autograd", [] {
    for (DeviceIndex i = 0; i < kDevices; ++i) {
      std::async(std::launch::async, [i] {
        const Device device(DeviceType::PrivateUse1, i);
        at::zeros(1, device).requires_grad_().view({1}).backward();
      }).wait();
    }
  });
}

} // namespace mini
