// The outputs of operators that have no meta function in C++: seen once, made again.
#pragma once

#include "executor/Argument.h"

#include <mutex>
#include <unordered_map>

namespace at::native::openreg {

/// Outputs for a call whose kernel has not run yet.
struct CachedOutputs {
  std::vector<Tensor> tensors;
  std::vector<size_t> earlier; ///< for each: PlannedMemory::earlier
};

// docs:begin output-shape-cache
/// What the outputs of calls were like, by the signatures of the calls.
///
/// Threads: any.
class OutputShapeCache {
 public:
  /// Remembers the outputs of a call, and the PlannedMemory::earlier of each if it is
  /// known. Outputs that are views are not remembered, since a call does not make them
  /// anew.
  void add(
      const Signature& key,
      std::span<const Tensor> outputs,
      std::span<const size_t> earlier = {});

  /// Makes such outputs; std::nullopt if no such call was seen.
  std::optional<CachedOutputs> make(const Signature& key, c10::Device device);
  // docs:end output-shape-cache

 private:
  struct Output {
    bool defined;
    std::vector<int64_t> sizes, strides;
    ScalarType dtype;
    size_t numbers = 0; ///< in the storage
    size_t earlier = 0;
  };
  static Tensor madeLike(const Output& output, c10::Device device);

  struct Hash {
    size_t operator()(const std::vector<int64_t>& key) const;
  };

  std::mutex mutex_;
  std::unordered_map<std::vector<int64_t>, std::vector<Output>, Hash> seen_;
};

} // namespace at::native::openreg
