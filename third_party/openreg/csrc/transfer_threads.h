// The threads that share a large copy or set with the thread that runs it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace openreg {

/// Helper threads for transfers. They start with the first transfer that wants
/// them, sleep between transfers and end with the process. One transfer at a time
/// has them; another one that runs meanwhile is done by its own thread.
///
/// Threads: any.
class TransferThreads {
 public:
  /// Handles the units [begin, end) of a transfer.
  using Part = void (*)(const void* context, size_t begin, size_t end);

  static constexpr uintptr_t kNoFault = UINTPTR_MAX;

  explicit TransferThreads(int count) : count_(count) {}

  /// How many threads a transfer may use, the one that runs it included.
  int count() const {
    return count_.load(std::memory_order_relaxed);
  }
  void setCount(int count) {
    count_.store(count, std::memory_order_relaxed);
  }

  /// Calls `part` until it has handled [0, units), on several threads. Returns
  /// false, with nothing done, if the caller had better do it alone: the bytes are
  /// few, the helpers are busy, or there are none.
  ///
  /// A part that faults is abandoned, and no other is begun: `fault` is then the
  /// lowest address that a part faulted at, and kNoFault otherwise.
  bool tryRun(
      size_t units,
      size_t bytesPerUnit,
      Part part,
      const void* context,
      uintptr_t* fault);

 private:
  // What a helper sleeps on: whether there is a transfer to join.
  struct Helper {
    TransferThreads& owner;
    std::atomic<uint32_t> invited{0};
  };

  /// Asks helpers to join. Returns how many were asked.
  size_t invite(size_t wanted);
  /// Waits for those that have joined; the others stay away.
  void dismiss(size_t invited);
  bool startHelper();
  [[noreturn]] void serve(Helper& helper);
  void runParts();

  std::atomic<int> count_;
  std::mutex busy_; // held during a transfer; guards what follows
  std::vector<std::unique_ptr<Helper>> helpers_;
  // The transfer: written by its thread while no helper has joined.
  Part part_ = nullptr;
  const void* context_ = nullptr;
  size_t units_ = 0;
  size_t grain_ = 0;
  std::atomic<size_t> next_{0}; // the first unit that nobody has taken
  std::atomic<uintptr_t> fault_{kNoFault};
  std::atomic<uint32_t> helping_{0}; // helpers invited or at work
};

} // namespace openreg
