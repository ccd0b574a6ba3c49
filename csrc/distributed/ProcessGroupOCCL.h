// occl, the process group of openreg devices.
#pragma once

#include "distributed/FlightRecorder.h"
#include "runtime/OpenRegSubmit.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <variant>

namespace c10::openreg::occl {

/// What programs for NCCL choose for its kernels and connections. It is kept for those
/// who read it again, and changes nothing.
struct NcclConfig {
  static constexpr int kUndefined = std::numeric_limits<int>::min();

  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  int split_share = kUndefined;
  int traffic_class = kUndefined;
  int collnet_enable = kUndefined;
  int cta_policy = kUndefined;
  int nvls_ctas = kUndefined;
  std::optional<std::string> net_name;
};

// docs:begin process-group
/// c10d's backend for openreg devices. A call is queued in a stream of the group's own,
/// behind the work of the caller's current stream, and returns at once.
///
/// Threads: any; calls of several threads are ordered as they come, and all ranks must
/// make them in the same order.
// docs:end process-group
class ProcessGroupOCCL final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds timeout = kBackendDefaultTimeout)
        : c10d::Backend::Options("occl", timeout) {}

    bool is_high_priority_stream = false;
    NcclConfig config; // in CUDA's place
  };

  /// Makes Gloo's group for a store. Python does it, because torch's wheel has no
  /// headers for it.
  using EngineFactory = c10::intrusive_ptr<c10d::Backend> (*)(
      const c10::intrusive_ptr<c10d::Store>& store,
      int rank,
      int size,
      std::chrono::milliseconds timeout);
  static void setEngineFactory(EngineFactory factory);

  /// Waits until all ranks of the group do the same.
  ProcessGroupOCCL(
      c10::intrusive_ptr<c10d::Store> store,
      int rank,
      int size,
      c10::intrusive_ptr<Options> options);
  ~ProcessGroupOCCL() override;

  /// How the bytes travel.
  std::string transportName() const {
    return group_->transport().name();
  }

  // --- c10d::Backend ---

  const std::string getBackendName() const override {
    return "occl";
  }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override {
    return options_;
  }
  void setTimeout(std::chrono::milliseconds timeout) override {
    options_->timeout = timeout;
  }
  /// Until the first call has ended, calls without a timeout of their own have that
  /// much more time, because what ranks do before it may take different times.
  void extendTimeout(std::chrono::milliseconds extra) {
    *extraTime_ += extra.count();
  }
  bool supportsSplitting() const override {
    return true;
  }
  bool supportsCoalescing() const override {
    return true;
  }
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store,
      const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override {
    return sequence_.load();
  }
  void enableCollectivesTiming() override {} // every Work knows its duration
  c10d::ErrorType getError() override {
    return group_->failed() ? c10d::ErrorType::COMM_ERROR
                            : c10d::ErrorType::SUCCESS;
  }
  void abort() override;
  void shutdown() override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool waitAllRanks)
      override;

  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  WorkPtr broadcast(Tensors&, const c10d::BroadcastOptions&) override;
  WorkPtr allreduce(Tensors&, const c10d::AllreduceOptions&) override;
  WorkPtr allreduce_sparse(Tensors&, const c10d::AllreduceOptions&) override;
  WorkPtr allreduce_coalesced(Tensors&, const c10d::AllreduceCoalescedOptions&)
      override;
  WorkPtr reduce(Tensors&, const c10d::ReduceOptions&) override;
  WorkPtr allgather(TensorLists&, Tensors&, const c10d::AllgatherOptions&)
      override;
  WorkPtr _allgather_base(
      at::Tensor&,
      at::Tensor&,
      const c10d::AllgatherOptions&) override;
  WorkPtr allgather_coalesced(
      TensorLists&,
      Tensors&,
      const c10d::AllgatherOptions&) override;
  WorkPtr allgather_into_tensor_coalesced(
      Tensors&,
      Tensors&,
      const c10d::AllgatherOptions&) override;
  WorkPtr gather(TensorLists&, Tensors&, const c10d::GatherOptions&) override;
  WorkPtr scatter(Tensors&, TensorLists&, const c10d::ScatterOptions&) override;
  WorkPtr reduce_scatter(
      Tensors&,
      TensorLists&,
      const c10d::ReduceScatterOptions&) override;
  WorkPtr _reduce_scatter_base(
      at::Tensor&,
      at::Tensor&,
      const c10d::ReduceScatterOptions&) override;
  WorkPtr reduce_scatter_tensor_coalesced(
      Tensors&,
      Tensors&,
      const c10d::ReduceScatterOptions&) override;
  WorkPtr alltoall_base(
      at::Tensor&,
      at::Tensor&,
      std::vector<int64_t>&,
      std::vector<int64_t>&,
      const c10d::AllToAllOptions&) override;
  WorkPtr alltoall(Tensors&, Tensors&, const c10d::AllToAllOptions&) override;
  WorkPtr send(Tensors&, int peer, int tag) override;
  WorkPtr recv(Tensors&, int peer, int tag) override;
  WorkPtr recvAnysource(Tensors&, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions&) override;

 private:
  using Step = std::variant<Collective, std::vector<Transfer>>;

  /// The work of one call of c10d, or of all calls between start and end of a
  /// coalescing.
  struct Job {
    c10d::OpType type;
    const char* name; ///< a literal
    c10::Device device;
    std::vector<Step> steps;
    Tensors inputs;
    Tensors outputs;
    std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
    int64_t extraTime = 0; ///< that is part of it, in milliseconds
    /// Whom messages came from, in the place that each points to.
    std::vector<std::shared_ptr<int>> sources = {};
    bool hostWaits = false;
    bool runsHere = false; ///< on the calling thread, which waits for it anyhow
    std::optional<Group::Lane> lane = {}; ///< none: that of collectives

    void listAccesses(std::vector<MemoryAccess>& accesses) const;
  };
  /// A job under way: what its kernel owns.
  struct RunningCall;
  /// Those that are being coalesced, and what the Works of all share.
  struct Batch {
    std::optional<Job> job;
    std::shared_ptr<Outcome> outcome;
    std::shared_ptr<OpenRegEvent> end;

    void add(Job other);
  };

  /// Queues a job, or keeps it for the end of the coalescing.
  WorkPtr start(Job job);
  WorkPtr launchRecorded(Job job, const Batch& batch);
  WorkPtr launch(Job job, const Batch& batch);
  static bool tryHere(const Submission& job, const RunningCall& running);
  static void keepMemory(
      const Job& job,
      CollectiveWork& work,
      const OpenRegStream& stream);
  c10::intrusive_ptr<CollectiveWork> makeWork(
      const Job& job,
      const Batch& batch,
      const OpenRegStream& stream) const;
  std::shared_ptr<const FlightRecorder::Members> members();
  void recordFlight(const Job& job, const Batch& batch);
  WorkPtr transfer(const char* what, Tensors& tensors, Transfer message);
  void checkRoot(const char* what, int64_t root) const;
  void checkCount(const char* what, size_t count, size_t expected) const;
  c10::Device deviceFor(const c10d::BarrierOptions& options) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<Options> options_;
  const std::vector<uint64_t> ranksInWorld_; // of the group's ranks
  const std::shared_ptr<Group> group_;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<uint64_t> messages_{0};
  std::mutex membersMutex_;
  std::shared_ptr<const FlightRecorder::Members> members_;
  std::atomic<uint64_t> monitored_{0};
  using ExtraTime = std::atomic<int64_t>; // in milliseconds
  const std::shared_ptr<ExtraTime> extraTime_ = std::make_shared<ExtraTime>(0);
  std::optional<Batch> batch_;
  std::map<std::vector<int>, int> splits_; // how often each was split off
};

} // namespace c10::openreg::occl
