// The state of a generator, which generators can share.
#include "runtime/OpenRegCapture.h"
#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegGenerator.h"
#include "runtime/OpenRegSubmit.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>

#include <cstring>
#include <utility>

namespace c10::openreg {

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

} // namespace c10::openreg
