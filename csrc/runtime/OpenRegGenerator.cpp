#include "runtime/OpenRegGenerator.h"

#include "runtime/OpenRegCapture.h"
#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegFunctions.h"
#include "runtime/OpenRegSubmit.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>

#include <array>
#include <cstring>
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

// --- the state ----------------------------------------------------------------

void GeneratorState::orderAfter(
    std::optional<OpenRegStream>& last,
    const OpenRegStream& stream) {
  if (last && *last != stream) {
    OpenRegEvent drawn;
    drawn.record(*last);
    drawn.block(stream);
  }
  last = stream;
}

bool GeneratorState::checkCapture(const OpenRegStream& stream) {
  const bool capturing = isCapturing(stream);
  TORCH_CHECK(
      captures_ > 0 || !capturing,
      "Attempt to increase offset for an ",
      deviceTitle(),
      " generator not in capture mode.\n"
      "Register it with the graph before the capture begins: "
      "graph.register_generator_state(generator).");
  TORCH_CHECK(
      captures_ == 0 || capturing,
      "Offset increment outside graph capture encountered unexpectedly: a "
      "graph that draws from this ",
      deviceTitle(),
      " generator is being captured, in another stream than ",
      stream.unwrap(),
      ".");
  return capturing;
}

void GeneratorState::useIn(const OpenRegStream& stream) {
  const std::lock_guard lock(using_);
  if (C10_LIKELY(!checkCapture(stream))) {
    orderAfter(lastStream_, stream);
    return;
  }
  if (lastCapturing_ && captureOf(*lastCapturing_) != captureOf(stream)) {
    lastCapturing_.reset(); // a capture that is over
  }
  orderAfter(lastCapturing_, stream);
}

std::unique_lock<std::mutex> GeneratorState::settle() {
  std::optional<OpenRegStream> last;
  {
    const std::lock_guard lock(using_);
    last = lastStream_;
  }
  if (last) {
    // Not a wait of the program: a GPU has no need of it.
    const RelaxedCapture relaxed;
    OPENREG_CHECK(orStreamSynchronize(*last));
  }
  return lock();
}

// --- a GPU's numbers ---

PhiloxDraw GeneratorState::drawIn(
    const OpenRegStream& stream,
    uint64_t increment) {
  increment = (increment + 3) / 4 * 4;
  const std::lock_guard lock(using_);
  if (C10_LIKELY(!checkCapture(stream))) {
    const PhiloxDraw draw(philox_);
    philox_.offset += increment;
    return draw;
  }
  lastCapturing_ = stream;
  const PhiloxDraw draw({0, captured_.increment}, captured_.start);
  captured_.increment += increment;
  return draw;
}

void GeneratorState::seedDraw() {
  if (seedOfDraw_) {
    const PhiloxPoint point = seedOfDraw_->point();
    set_current_seed(philox(point.seed, point.offset, 0).words[0]);
  }
}

void GeneratorState::set_current_seed(uint64_t seed) {
  CPUGeneratorImpl::set_current_seed(seed);
  const std::lock_guard lock(using_);
  philox_ = {seed, 0};
}

void GeneratorState::set_offset(uint64_t offset) {
  TORCH_CHECK(
      drawsPhilox() || offset == 0,
      "the generator of an openreg device draws as the CPU's does and has no "
      "offset, but got ",
      offset,
      "; use set_state(), or start Python with OPENREG_RNG=philox");
  TORCH_CHECK(
      offset % 4 == 0, "offset must be a multiple of 4, but got ", offset);
  const std::lock_guard lock(using_);
  philox_.offset = offset;
}

uint64_t GeneratorState::get_offset() const {
  const std::lock_guard lock(using_);
  return philox_.offset;
}

void GeneratorState::set_state(const TensorImpl& bytes) {
  if (!drawsPhilox()) {
    CPUGeneratorImpl::set_state(bytes);
    return;
  }
  PhiloxPoint point;
  std::memcpy(&point, bytes.data(), static_cast<size_t>(bytes.numel()));
  set_current_seed(point.seed);
  set_offset(point.offset);
}

intrusive_ptr<TensorImpl> GeneratorState::get_state() const {
  if (!drawsPhilox()) {
    return CPUGeneratorImpl::get_state();
  }
  const at::Tensor bytes = at::detail::empty_cpu(
      {static_cast<int64_t>(sizeof(PhiloxPoint))}, at::kByte);
  const std::lock_guard lock(using_);
  std::memcpy(bytes.mutable_data_ptr(), &philox_, sizeof(philox_));
  return bytes.getIntrusivePtr();
}

// --- graphs ---

void GeneratorState::addGraph() {
  const std::lock_guard lock(using_);
  if (graphs_++ == 0) {
    // The seed and the offset, which a GPU's kernels read when they are replayed.
    for (DataPtr& memory : graphMemory_) {
      memory = getOpenRegDeviceAllocator().allocate(sizeof(int64_t));
    }
  }
}

void GeneratorState::removeGraph() noexcept {
  const std::lock_guard lock(using_);
  if (--graphs_ == 0) {
    graphMemory_ = {};
  }
}

void GeneratorState::beginCapture() {
  const auto settled = settle();
  const std::lock_guard lock(using_);
  TORCH_CHECK(
      captures_ == 0 || !drawsPhilox(),
      "with OPENREG_RNG=philox graphs that share a generator cannot be "
      "captured "
      "at the same time: end one capture before another begins, or start "
      "Python "
      "with OPENREG_RNG=cpu");
  lastStream_.reset();
  captured_ = {0, std::make_shared<PhiloxPoint>()};
  ++captures_;
}

std::optional<CapturedDraws> GeneratorState::endCapture() noexcept {
  const std::lock_guard lock(using_);
  --captures_;
  return std::exchange(lastCapturing_, std::nullopt)
      ? std::optional(std::exchange(captured_, {}))
      : std::nullopt;
}

void GeneratorState::replayIn(
    const OpenRegStream& stream,
    const CapturedDraws& draws) {
  useIn(stream); // a replay in another stream still reads where it began
  if (!drawsPhilox()) {
    return;
  }
  const PhiloxPoint start = drawIn(stream, draws.increment).point();
  const auto list = [](std::vector<MemoryAccess>&) {};
  // Earlier replays may not have run yet: the stream sets the point.
  OPENREG_CHECK(submit({"philox_seed", stream, list}, [&](orStream_t handle) {
    const orLaunchConfig config{"philox_seed", orLaunchSmall};
    return orLaunchKernelEx(
        &config, handle, [start, to = draws.start] { *to = start; });
  }));
}

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

void OpenRegGeneratorImpl::checkNotCapturing(const char* method) const {
  TORCH_CHECK(
      !isCapturing(getCurrentOpenRegStream(device().index())),
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
  if (C10_UNLIKELY(isCapturing(getCurrentOpenRegStream(device().index())))) {
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
