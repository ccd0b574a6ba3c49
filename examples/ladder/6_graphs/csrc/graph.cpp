// torch.accelerator.Graph: work that is recorded once and replayed.
#include "caching.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/GraphImplInterface.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

namespace mini {

/// Of one stream. The memory that the work uses stays, in a pool of the graph's own.
class MiniGraph final : public at::GraphImplInterface {
 public:
  explicit MiniGraph(const at::GraphImplArgs& /*args*/) {}
  ~MiniGraph() override {
    reset();
  }

  void capture_begin(MempoolId_t pool, at::GraphCaptureMode /*mode*/) override {
    TORCH_CHECK(!blocks_, "the graph has captured already: call reset() first");
    MiniStream& stream = miniCurrentStream();
    TORCH_CHECK(
        &stream != &miniStream(miniCurrentDevice, 0),
        "the default stream cannot be captured: use another one");
    static std::atomic<uint64_t> next = 1;
    pool_ = pool == MempoolId_t{0, 0} ? MempoolId_t{next++, 0} : pool;
    blocks_ = &DevicePool::of(static_cast<DeviceIndex>(miniCurrentDevice)).pool;
    blocks_->beginAllocateToPool(
        pool_, [own = &stream](void* other) { return other == own; });
    stream_ = &stream;
    stream_->beginCapture();
    const std::lock_guard lock(mutex_);
    capturing_[stream_] = this;
  }
  void capture_end() override {
    TORCH_CHECK(stream_, "no capture has begun");
    auto captured = endCapture();
    if (!captured) {
      reset();
    }
    TORCH_CHECK(captured, "the capture failed: see the error before this one");
    work_ = std::move(*captured);
  }
  void instantiate() override {}
  void replay() override {
    TORCH_CHECK(
        blocks_ && !stream_, "there is nothing to replay: capture first");
    for (const auto& draw : draws_) {
      draw();
    }
    for (const MiniWork& work : work_) {
      miniLaunch(work);
    }
  }
  void reset() override {
    if (stream_) {
      endCapture();
    }
    if (auto* blocks = std::exchange(blocks_, nullptr)) {
      miniWaitForAll(); // a replay may be under way
      blocks->releasePool(pool_);
    }
    work_.clear();
    draws_.clear();
  }
  /// The graph that captures the current stream, if there is one.
  static MiniGraph* current() {
    const std::lock_guard lock(mutex_);
    const auto found = capturing_.find(&miniCurrentStream());
    return found == capturing_.end() ? nullptr : found->second;
  }
  /// Random numbers: each replay draws new ones on the host, in the order of the
  /// program, and the work that is captured copies them.
  void drawInto(const at::Tensor& target, std::function<at::Tensor()> draw) {
    struct Drawn {
      std::mutex mutex;
      std::deque<at::Tensor> waiting; // of replays that have not come to it
    };
    auto drawn = std::make_shared<Drawn>();
    draws_.push_back([drawn, draw] {
      at::Tensor numbers = draw();
      const std::lock_guard lock(drawn->mutex);
      drawn->waiting.push_back(std::move(numbers));
    });
    miniLaunch([drawn,
                to = miniKernelAddress(target.mutable_data_ptr()),
                bytes = target.nbytes()] {
      const std::lock_guard lock(drawn->mutex);
      std::memcpy(to, drawn->waiting.front().const_data_ptr(), bytes);
      drawn->waiting.pop_front();
    });
  }
  MempoolId_t pool() const override {
    TORCH_CHECK(blocks_, "a graph has a pool once it captures");
    return pool_;
  }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "work of mini has no names that could be written to ", path);
  }

 private:
  std::optional<std::vector<MiniWork>> endCapture() {
    {
      const std::lock_guard lock(mutex_);
      capturing_.erase(stream_);
    }
    blocks_->endAllocateToPool(pool_);
    return std::exchange(stream_, nullptr)->endCapture();
  }

  static inline std::mutex mutex_;
  static inline std::map<MiniStream*, MiniGraph*> capturing_;

  MiniStream* stream_ = nullptr; // while it captures
  BlockPool* blocks_ = nullptr; // since it captured
  MempoolId_t pool_;
  std::vector<MiniWork> work_;
  std::vector<std::function<void()>> draws_;
};

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Where nothing is captured, the fallback draws.
at::Tensor& uniform_(
    at::Tensor& self,
    double from,
    double to,
    std::optional<at::Generator> generator) {
  MiniGraph* graph = MiniGraph::current();
  if (!graph || !self.is_contiguous()) {
    return at::native::call_fallback_fn<&fallback, at::_ops::uniform_>::call(
        self, from, to, generator);
  }
  at::Generator ours =
      generator.value_or(at::globalContext().defaultGenerator(self.device()));
  graph->drawInto(
      self, [ours, from, to, size = self.numel(), dtype = self.scalar_type()] {
        at::Generator lent = at::detail::createCPUGenerator();
        lent.set_state(ours.get_state());
        at::Tensor numbers = at::empty(size, dtype).uniform_(from, to, lent);
        at::Generator(ours).set_state(lent.get_state());
        return numbers;
      });
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("uniform_", mini::uniform_);
}

} // namespace mini

// By the device's name, which torch_mini gives it.
namespace at {
using mini::MiniGraph;
REGISTER_GRAPH_IMPL(MINI, MiniGraph)
} // namespace at
