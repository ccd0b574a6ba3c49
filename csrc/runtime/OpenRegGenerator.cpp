#include "runtime/OpenRegGenerator.h"

#include "runtime/OpenRegCapture.h"
#include "runtime/OpenRegFunctions.h"

#include <ATen/Utils.h>

#include <array>
#include <utility>

namespace c10::openreg {
namespace {

OpenRegGeneratorImpl* implOf(const at::Generator& generator) {
  TORCH_CHECK(
      generator.defined() && generator.device().type() == kDeviceType,
      "Expected a '",
      c10::DeviceTypeName(kDeviceType, /*lower_case=*/true),
      "' device type for generator but found '",
      generator.defined()
          ? c10::DeviceTypeName(generator.device().type(), /*lower_case=*/true)
          : "none",
      "'");
  return generator.get<OpenRegGeneratorImpl>();
}

intrusive_ptr<GeneratorState> makeState(uint64_t seed) {
  auto state = c10::make_intrusive<GeneratorState>();
  state->set_current_seed(seed);
  return state;
}

at::Generator makeGenerator(DeviceIndex device, uint64_t seed) {
  return at::make_generator<OpenRegGeneratorImpl>(device, makeState(seed));
}

} // namespace

// --- the generator ------------------------------------------------------------

OpenRegGeneratorImpl::OpenRegGeneratorImpl(
    DeviceIndex device,
    intrusive_ptr<GeneratorState> state)
    : GeneratorImpl(Device(kDeviceType, device), kKeySet),
      state_(std::move(state)) {}

intrusive_ptr<GeneratorState> OpenRegGeneratorImpl::state() const {
  const std::lock_guard lock(sharing_);
  return state_;
}

OpenRegGeneratorImpl* OpenRegGeneratorImpl::clone_impl() const {
  auto copy = c10::make_intrusive<GeneratorState>();
  copy->set_state(*get_state());
  return new OpenRegGeneratorImpl(device().index(), std::move(copy));
}

bool OpenRegGeneratorImpl::isCapturing() const {
  const OpenRegStream stream = getCurrentOpenRegStream(device().index());
  check_not_broken(stream.device_index());
  return openreg::isCapturing(stream);
}

void OpenRegGeneratorImpl::checkNotCapturing(const char* method) const {
  TORCH_CHECK(
      !isCapturing(),
      "Cannot call ",
      deviceTitle(),
      "GeneratorImpl::",
      method,
      " during ",
      deviceTitle(),
      " graph capture. Call it before the capture or before a replay.");
}

void OpenRegGeneratorImpl::set_current_seed(uint64_t seed) {
  const auto state = this->state();
  if (C10_UNLIKELY(isCapturing())) {
    TORCH_CHECK(
        seed == current_seed(),
        deviceTitle(),
        "GeneratorImpl::set_current_seed can be called during stream capture "
        "only if new seed is the same as the original seed.");
    return;
  }
  const auto lock = state->settle();
  state->set_current_seed(seed);
}

uint64_t OpenRegGeneratorImpl::current_seed() const {
  const auto state = this->state();
  const auto lock = state->lock();
  return state->current_seed();
}

uint64_t OpenRegGeneratorImpl::seed() {
  checkNotCapturing("seed");
  const uint64_t random = c10::detail::getNonDeterministicRandom();
  set_current_seed(random);
  return random;
}

void OpenRegGeneratorImpl::set_state(const TensorImpl& bytes) {
  checkNotCapturing("set_state");
  const auto state = this->state();
  const auto lock = state->settle();
  at::detail::check_rng_state(bytes);
  // Older versions of PyTorch left the last eight bytes out, of either kind of state.
  const int64_t size = bytes.numel(), wanted = state->get_state()->numel();
  TORCH_CHECK(
      size == wanted || size == wanted - 8,
      c10::str(
          "RNG state is wrong size\nIt has ", size, " bytes, but must have "),
      wanted,
      ", as those that get_state() gives");
  state->set_state(bytes);
}

intrusive_ptr<TensorImpl> OpenRegGeneratorImpl::get_state() const {
  isCapturing(); // allowed, but not on a broken device
  const auto state = this->state();
  const auto lock = state->settle();
  return state->get_state();
}

intrusive_ptr<GeneratorImpl> OpenRegGeneratorImpl::graphsafe_get_state() const {
  return c10::make_intrusive<OpenRegGeneratorImpl>(device().index(), state());
}

void OpenRegGeneratorImpl::graphsafe_set_state(
    const intrusive_ptr<GeneratorImpl>& other) {
  auto state = implOf(at::Generator(other))->state();
  const std::lock_guard lock(sharing_);
  state_ = std::move(state);
}

void OpenRegGeneratorImpl::set_offset(uint64_t offset) {
  checkNotCapturing("set_offset");
  state()->set_offset(offset);
}

uint64_t OpenRegGeneratorImpl::get_offset() const {
  checkNotCapturing("get_offset");
  return state()->get_offset();
}

// --- drawing ------------------------------------------------------------------

CpuDraw::CpuDraw(const at::Generator& generator)
    : generator_(generator), lock_([&] {
        auto* const state =
            dynamic_cast<GeneratorState*>(generator.unsafeGetGeneratorImpl());
        TORCH_INTERNAL_ASSERT(state, "not from generatorFor()");
        auto lock = state->lock();
        state->seedDraw();
        return lock;
      }()) {}

intrusive_ptr<GeneratorState> stateOf(const at::Generator& generator) {
  return implOf(generator)->state();
}

namespace {

intrusive_ptr<GeneratorState> stateFor(
    const std::optional<at::Generator>& given,
    const OpenRegStream& stream) {
  return stateOf(
      given && given->defined()
          ? *given
          : getDefaultOpenRegGenerator(stream.device_index()));
}

} // namespace

at::Generator generatorFor(
    const std::optional<at::Generator>& given,
    const OpenRegStream& stream) {
  auto state = stateFor(given, stream);
  if (drawsPhilox()) {
    return at::make_generator<GeneratorState>(state->drawIn(stream, 4));
  }
  state->useIn(stream);
  return at::Generator(std::move(state));
}

PhiloxDraw drawFrom(
    const std::optional<at::Generator>& given,
    const OpenRegStream& stream,
    uint64_t increment) {
  return stateFor(given, stream)->drawIn(stream, increment);
}

const at::Generator& getDefaultOpenRegGenerator(DeviceIndex device) {
  struct Default {
    std::once_flag once;
    at::Generator generator;
  };
  static auto* defaults = new std::array<Default, kMaxDevices>;
  device = device_or_current(device);
  auto& [once, generator] = (*defaults)[device];
  std::call_once(once, [&, made = &generator] {
    *made = makeGenerator(device, c10::detail::getNonDeterministicRandom());
  });
  return generator;
}

at::Generator createOpenRegGenerator(DeviceIndex device) {
  device_or_current(device); // throws if there is no such device
  return makeGenerator(device, c10::default_rng_seed_val);
}

} // namespace c10::openreg
