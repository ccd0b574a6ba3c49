// torch.accelerator.Graph: work that is recorded once and replayed.
#include "caching.h"

#include <ATen/core/GraphImplInterface.h>

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
  }
  void capture_end() override {
    TORCH_CHECK(stream_, "no capture has begun");
    auto captured = std::exchange(stream_, nullptr)->endCapture();
    blocks_->endAllocateToPool(pool_);
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
    for (const MiniWork& work : work_) {
      miniLaunch(work);
    }
  }
  void reset() override {
    if (stream_) {
      std::exchange(stream_, nullptr)->endCapture();
      blocks_->endAllocateToPool(pool_);
    }
    if (auto* blocks = std::exchange(blocks_, nullptr)) {
      miniWaitForAll(); // a replay may be under way
      blocks->releasePool(pool_);
    }
    work_.clear();
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
  MiniStream* stream_ = nullptr; // while it captures
  BlockPool* blocks_ = nullptr; // since it captured
  MempoolId_t pool_;
  std::vector<MiniWork> work_;
};

} // namespace mini

// By the device's name, which torch_mini gives it.
namespace at {
using mini::MiniGraph;
REGISTER_GRAPH_IMPL(MINI, MiniGraph)
} // namespace at
