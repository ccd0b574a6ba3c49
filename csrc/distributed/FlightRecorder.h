// The last calls of this process, for those who look for a hang.
#pragma once

#include "distributed/CollectiveWork.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <thread>

namespace c10::openreg::occl {

/// Keeps the last calls of all groups, and writes them in the format of PyTorch's
/// flight recorder, which `torchfrtrace` reads. PyTorch's own recorder is a template
/// whose code is not in the wheel. Stacks of Python are kept if TORCH_FR_BUFFER_SIZE is
/// set.
///
/// Threads: any may call anything.
class FlightRecorder {
 public:
  /// A group as the world sees it.
  struct Members {
    std::string name;
    std::string description;
    std::vector<uint64_t> ranks;
  };
  struct Call {
    std::shared_ptr<const Members> group;
    const char* name; ///< a literal, `all_reduce`
    uint64_t sequence; ///< in its group, of collectives or of messages
    std::chrono::milliseconds timeout;
    std::shared_ptr<Outcome> outcome;
    std::string message = {}; ///< `0->1`, from whom to whom
  };

  static FlightRecorder& get();

  /// Whether calls are kept: TORCH_FR_BUFFER_SIZE is not 0.
  bool enabled() const {
    return most_ > 0;
  }
  void record(
      Call call,
      const std::vector<at::Tensor>& inputs,
      const std::vector<at::Tensor>& outputs);

  /// A pickled dictionary. Stacks need Python's lock.
  std::string dump(bool withCalls, bool withStacks, bool onlyActive) const;
  /// Writes it to the path in TORCH_FR_DUMP_TEMP_FILE, if that is set; once per
  /// process.
  void dumpOnce(int rank) noexcept;

 private:
  struct TensorNote {
    c10::ScalarType dtype;
    c10::SmallVector<int64_t, 4> sizes;
  };
  using Notes = c10::SmallVector<TensorNote, 1>;
  struct Entry {
    Call call;
    uint64_t number;
    int64_t created; // nanoseconds since 1970
    std::thread::id thread;
    Notes inputs;
    Notes outputs;
    std::shared_ptr<torch::CapturedTraceback> stack;
  };

  FlightRecorder();
  static Notes noteOf(const std::vector<at::Tensor>& tensors);
  static c10::IValue sizesOf(const Notes& notes);
  static c10::IValue typesOf(const Notes& notes);
  static c10::IValue describe(const Entry& entry);

  const size_t most_;
  const bool keepsStacks_; // they take longer than a small call
  mutable std::mutex mutex_;
  std::vector<Entry> entries_; // a ring
  uint64_t count_ = 0;
  std::atomic<bool> dumped_{false};
};

} // namespace c10::openreg::occl
