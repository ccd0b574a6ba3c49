// What fork_rng() and checkpoints keep: the state of a device's random numbers.
#include <ATen/ATen.h>
#include <torch/library.h>

namespace mini {

TORCH_LIBRARY_FRAGMENT(mini, m) {
  m.def("get_rng_state", [](c10::Device device) {
    return at::globalContext().defaultGenerator(device).get_state();
  });
  m.def("set_rng_state", [](const at::Tensor& state, c10::Device device) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    generator.set_state(state);
  });
}

} // namespace mini
