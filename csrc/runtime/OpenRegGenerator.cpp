#include "runtime/OpenRegGenerator.h"

#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegFunctions.h"

#include <array>

namespace c10::openreg {
namespace {

OpenRegGeneratorImpl* implOf(const at::Generator& generator) {
  TORCH_CHECK(
      generator.defined() &&
          generator.device().type() == DeviceType::PrivateUse1,
      "Expected a '",
      c10::DeviceTypeName(DeviceType::PrivateUse1, /*lower_case=*/true),
      "' device type for generator but found '",
      generator.defined()
          ? c10::DeviceTypeName(generator.device().type(), /*lower_case=*/true)
          : "none",
      "'");
  return generator.get<OpenRegGeneratorImpl>();
}

at::Generator makeGenerator(DeviceIndex device, uint64_t seed) {
  return at::make_generator<OpenRegGeneratorImpl>(
      device, c10::make_intrusive<GeneratorState>(seed));
}

} // namespace

// --- the state ----------------------------------------------------------------

void GeneratorState::useIn(const OpenRegStream& stream) {
  const std::lock_guard lock(using_);
  if (lastStream_ && *lastStream_ != stream) {
    OpenRegEvent drawn;
    drawn.record(*lastStream_);
    drawn.block(stream);
  }
  lastStream_ = stream;
}

std::unique_lock<std::mutex> GeneratorState::settle() {
  std::optional<OpenRegStream> last;
  {
    const std::lock_guard lock(using_);
    last = lastStream_;
  }
  if (last) {
    // Not a wait of the program: a GPU has no need of it.
    OPENREG_CHECK(orStreamSynchronize(*last));
  }
  return lock();
}

// --- the generator ------------------------------------------------------------

OpenRegGeneratorImpl::OpenRegGeneratorImpl(
    DeviceIndex device,
    intrusive_ptr<GeneratorState> state)
    : GeneratorImpl(
          Device(DeviceType::PrivateUse1, device),
          DispatchKeySet(DispatchKey::PrivateUse1)),
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

void OpenRegGeneratorImpl::set_current_seed(uint64_t seed) {
  const auto state = this->state();
  const auto lock = state->settle();
  state->set_current_seed(seed);
}

uint64_t OpenRegGeneratorImpl::current_seed() const {
  const auto state = this->state();
  const auto lock = state->lock();
  return state->current_seed();
}

uint64_t OpenRegGeneratorImpl::seed() {
  const uint64_t random = c10::detail::getNonDeterministicRandom();
  set_current_seed(random);
  return random;
}

void OpenRegGeneratorImpl::set_state(const TensorImpl& bytes) {
  const auto state = this->state();
  const auto lock = state->settle();
  state->set_state(bytes);
}

intrusive_ptr<TensorImpl> OpenRegGeneratorImpl::get_state() const {
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
  TORCH_CHECK(
      offset == 0,
      "the generator of an openreg device draws as the CPU's does and has no "
      "offset, but got ",
      offset,
      "; use set_state()");
}

// --- drawing ------------------------------------------------------------------

CpuDraw::CpuDraw(const at::Generator& generator)
    : generator_(generator), lock_([&] {
        auto* const state =
            dynamic_cast<GeneratorState*>(generator.unsafeGetGeneratorImpl());
        TORCH_INTERNAL_ASSERT(state, "not from generatorFor()");
        return state->lock();
      }()) {}

at::Generator generatorFor(
    const std::optional<at::Generator>& given,
    const OpenRegStream& stream) {
  const at::Generator& generator = given && given->defined()
      ? *given
      : getDefaultOpenRegGenerator(stream.device_index());
  auto state = implOf(generator)->state();
  state->useIn(stream);
  return at::Generator(std::move(state));
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
  return makeGenerator(device_or_current(device), c10::default_rng_seed_val);
}

} // namespace c10::openreg
