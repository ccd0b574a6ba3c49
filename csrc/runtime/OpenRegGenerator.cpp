#include "runtime/OpenRegGenerator.h"

#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegFunctions.h"

#include <array>

namespace c10::openreg {
namespace {

void copyState(at::CPUGeneratorImpl& from, at::CPUGeneratorImpl& to) {
  to.set_engine(from.engine());
  to.set_next_float_normal_sample(from.next_float_normal_sample());
  to.set_next_double_normal_sample(from.next_double_normal_sample());
}

at::CPUGeneratorImpl& implOf(const at::Generator& generator) {
  return *generator.get<at::CPUGeneratorImpl>();
}

OpenRegGeneratorImpl* ownImplOf(const at::Generator& generator) {
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

} // namespace

OpenRegGeneratorImpl::OpenRegGeneratorImpl(DeviceIndex device, uint64_t seed)
    : CPUGeneratorImpl(seed) {
  device_ = Device(DeviceType::PrivateUse1, device);
  key_set_ = DispatchKeySet(DispatchKey::PrivateUse1);
}

OpenRegGeneratorImpl* OpenRegGeneratorImpl::clone_impl() const {
  auto* clone = new OpenRegGeneratorImpl(device().index());
  clone->set_state(*get_state());
  return clone;
}

void OpenRegGeneratorImpl::set_offset(uint64_t offset) {
  TORCH_CHECK(
      offset == 0,
      "the generator of an openreg device draws as the CPU's does and has no "
      "offset, but got ",
      offset,
      "; use set_state()");
}

// --- order --------------------------------------------------------------------

void OpenRegGeneratorImpl::useIn(const OpenRegStream& stream) {
  const std::lock_guard lock(using_);
  if (lastStream_ && *lastStream_ != stream) {
    OpenRegEvent drawn;
    drawn.record(*lastStream_);
    drawn.block(stream);
  }
  lastStream_ = stream;
}

// Waits for all that was queued.
void OpenRegGeneratorImpl::settle() const {
  std::optional<OpenRegStream> last;
  {
    const std::lock_guard lock(using_);
    last = lastStream_;
  }
  if (last) {
    last->synchronize();
  }
}

void OpenRegGeneratorImpl::set_current_seed(uint64_t seed) {
  settle();
  const std::lock_guard lock(drawing_);
  CPUGeneratorImpl::set_current_seed(seed);
}

uint64_t OpenRegGeneratorImpl::current_seed() const {
  const std::lock_guard lock(drawing_);
  return CPUGeneratorImpl::current_seed();
}

uint64_t OpenRegGeneratorImpl::seed() {
  const uint64_t random = c10::detail::getNonDeterministicRandom();
  set_current_seed(random);
  return random;
}

void OpenRegGeneratorImpl::set_state(const TensorImpl& state) {
  settle();
  const std::lock_guard lock(drawing_);
  CPUGeneratorImpl::set_state(state);
}

intrusive_ptr<TensorImpl> OpenRegGeneratorImpl::get_state() const {
  settle();
  const std::lock_guard lock(drawing_);
  return CPUGeneratorImpl::get_state();
}

// --- drawing ------------------------------------------------------------------

// The scratch generator's own seed never matters; making one takes microseconds,
// hence one per thread.
CpuDraw::CpuDraw(const at::Generator& generator)
    : owner_(ownImplOf(generator)), lock_(owner_->drawing_), cpu_([] {
        thread_local const at::Generator scratch =
            at::detail::createCPUGenerator();
        return scratch;
      }()) {
  copyState(*owner_, implOf(cpu_));
}

CpuDraw::~CpuDraw() {
  copyState(implOf(cpu_), *owner_);
}

at::Generator generatorFor(
    const std::optional<at::Generator>& given,
    const OpenRegStream& stream) {
  at::Generator generator = given && given->defined()
      ? *given
      : getDefaultOpenRegGenerator(stream.device_index());
  ownImplOf(generator)->useIn(stream);
  return generator;
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
    *made = at::make_generator<OpenRegGeneratorImpl>(
        device, c10::detail::getNonDeterministicRandom());
  });
  return generator;
}

at::Generator createOpenRegGenerator(DeviceIndex device) {
  return at::make_generator<OpenRegGeneratorImpl>(device_or_current(device));
}

} // namespace c10::openreg
