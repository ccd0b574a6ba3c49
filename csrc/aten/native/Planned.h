// Kernels that make their outputs themselves, queued all the same.
#pragma once

#include "aten/native/Executor.h"

#include <vector>

namespace at::native::openreg {

// docs:begin planned-scope
/// While it lives, a tensor that the calling thread makes with the CPU allocator
/// and that has as many bytes as one of `outputs` comes to lie in that one's
/// memory: a CPU kernel that allocates its output finds it already made.
// docs:end planned-scope
struct PlannedSlot {
  void* pointer;
  size_t bytes; // 0: taken
};

class [[nodiscard]] PlannedScope {
 public:
  explicit PlannedScope(const std::vector<Tensor>& outputs);
  ~PlannedScope();
  PlannedScope(const PlannedScope&) = delete;
  PlannedScope& operator=(const PlannedScope&) = delete;

 private:
  friend void* takePlanned(size_t bytes);
  friend std::vector<PlannedSlot> takeAllPlanned();
  friend bool isPlanned(const void* pointer);

  PlannedScope* const outer_;
  std::vector<PlannedSlot> slots_;
};

/// Planned memory of that size, once; nullptr if there is none.
void* takePlanned(size_t bytes);

/// All that is left, for a kernel that runs elsewhere.
std::vector<PlannedSlot> takeAllPlanned();

/// Whether it is memory that takePlanned() gave.
bool isPlanned(const void* pointer);

/// Copies results that do not lie where they were planned.
void settlePlanned(
    const std::vector<Tensor>& planned,
    const std::vector<Tensor>& results);

inline std::vector<Tensor> tensorsOf(Tensor result) {
  return {std::move(result)};
}
inline std::vector<Tensor> tensorsOf(std::vector<Tensor> results) {
  return results;
}
template <class... T>
std::vector<Tensor> tensorsOf(std::tuple<T...> results) {
  return std::apply(
      [](auto&... result) { return std::vector<Tensor>{std::move(result)...}; },
      results);
}

/// Queues `kernel`, whose results, tensors, go to `outputs`.
template <class Kernel>
void launchPlanned(
    const char* name,
    const OpenRegStream& stream,
    size_t bytes,
    const std::vector<Tensor>& outputs,
    Kernel kernel) {
  std::vector<Tensor> planned;
  planned.reserve(outputs.size());
  for (const Tensor& output : outputs) {
    planned.push_back(aliasForLaunch(output));
  }
  launch(
      name,
      stream,
      bytes,
      [planned = std::move(planned), kernel = std::move(kernel)]() mutable {
        std::vector<Tensor> results;
        {
          const PlannedScope scope(planned);
          results = tensorsOf(kernel());
        }
        settlePlanned(planned, results);
      });
}

} // namespace at::native::openreg
