// A call that is on its way, as c10d sees it.
#pragma once

#include "distributed/Group.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <condition_variable>

namespace c10::openreg::occl {

/// How a call ended. Shared by the call, which may run on a stream's thread, and its
/// Work.
///
/// Threads: any may call anything.
class Outcome {
 public:
  void begin();
  void end();
  void fail(const std::string& failure, c10d::WorkResult result);

  bool ended() const {
    return ended_.load(std::memory_order_acquire);
  }
  /// Waits for the end; a timeout of 0 waits for ever. Returns false if the time is
  /// over before.
  bool wait(std::chrono::milliseconds timeout) const;
  /// What it failed with, or "".
  std::string failure() const;
  c10d::WorkResult result() const;
  /// From begin to end in milliseconds.
  float duration() const;

  /// When it reached each stage, in nanoseconds since 1970.
  struct Progress {
    std::optional<int64_t> begun;
    std::optional<int64_t> ended; ///< not if it failed
    bool over; ///< one way or the other
  };
  Progress progress() const;

 private:
  void finish(const std::string& failure, c10d::WorkResult result);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::atomic<bool> ended_{false};
  std::string failure_;
  c10d::WorkResult result_ = c10d::WorkResult::SUCCESS;
  std::chrono::steady_clock::time_point begun_, over_;
};

// docs:begin collective-work
/// wait() makes the current stream wait, as NCCL's does, and not the host, unless it is
/// given a timeout, or the call is a barrier, or OPENREG_OCCL_BLOCKING_WAIT is set. A
/// call that has failed by then throws; one that fails later does so at the next
/// synchronisation with the device.
// docs:end collective-work
class CollectiveWork final : public c10d::Work {
 public:
  struct Parts {
    std::shared_ptr<Group> group;
    std::shared_ptr<Outcome> outcome;
    std::shared_ptr<OpenRegEvent> end; ///< in the stream
    OpenRegStream stream;
    std::vector<at::Tensor> outputs;
    std::vector<at::Tensor> held;
    std::shared_ptr<int> source;
    uint64_t sequence;
    std::chrono::milliseconds timeout;
    bool hostWaits;
  };
  CollectiveWork(
      c10d::OpType type,
      const char* title,
      const std::optional<std::vector<at::Tensor>>& inputs,
      Parts parts);

  /// Keeps tensors until somebody waits.
  void hold(std::vector<at::Tensor> tensors) {
    parts_.held = std::move(tensors);
  }
  /// Says so to those who were told to profile it.
  void endRecord();

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override {
    return parts_.outputs;
  }
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void blockCurrentStream() override {
    synchronize();
  }
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  /// A future that is complete when the call is: with a number of c10d::WorkResult.
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  float getDuration() const override;
  uint64_t getSequencenumber() const override {
    return parts_.sequence;
  }

 private:
  void throwFailure() const;
  bool waitOnHost(std::chrono::milliseconds timeout);

  Parts parts_;
  std::mutex futureMutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  c10::intrusive_ptr<c10::ivalue::Future> futureResult_;
};

} // namespace c10::openreg::occl
