// What the executor knows about an operator.
#pragma once

#include "executor/Argument.h"
#include "executor/DeviceCheck.h"
#include "executor/FallbackCount.h"
#include "executor/KernelPace.h"
#include "executor/OutputShapeCache.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <atomic>
#include <optional>
#include <string_view>

namespace at::native::openreg {

/// What CPU kernels are called with: below autograd and everything else.
inline constexpr c10::DispatchKeySet kCpuKernel(c10::DispatchKey::CPU);

/// The variants of a call, by dtypes, kinds of numbers and words, that a kernel was
/// seen to support. A kernel reports what it does not support only when it
/// runs, which is too late if it is queued: so the first call of a variant waits.
///
/// Threads: any.
class SupportedVariants {
 public:
  bool has(uint64_t variant) const {
    for (const auto& supported : variants_) {
      const uint64_t known = supported.load(std::memory_order_relaxed);
      if (known == variant || known == 0) {
        return known == variant;
      }
    }
    return false;
  }
  /// When it is full, calls of further variants always wait.
  void add(uint64_t variant);

 private:
  std::array<std::atomic<uint64_t>, 24> variants_{};
};

struct KernelRun;
class StructuredRun;

// docs:begin thread-sums
/// When a kernel adds up partial sums of its threads: with another number of threads its
/// rounding would differ from the CPU's.
enum class ThreadSums : uint8_t {
  Never,
  IfLargeSum, ///< with one result, or of a tensor that is not contiguous
  IfLarge,
  IfUneven, ///< a product whose matrices cannot be cut in equal parts
  UnlessLastDim, ///< of a softmax
  UnlessImages, ///< of a batch norm: contiguous, with several elements per channel
  OfParameters, ///< if the last argument asks for gradients of a weight or a bias
  Always,
};
// docs:end thread-sums

/// What a kernel checks in addition to the meta function.
enum class KernelChecks : uint8_t {
  Nothing,
  Arguments, ///< more of them: queued if such a call succeeded before
  Numbers, ///< raises if it cannot work with them, as on a GPU: never queued
  NumbersIfAsked, ///< the same if the argument `check_errors` is set
  WeightDtype, ///< of a loss: it must be that of the input
};

/// Where the outputs of an operator come from.
enum class OutputSource : uint8_t {
  Meta, ///< the meta function of a structured operator tells them
  Cache, ///< an earlier call with the same shapes and numbers did
  Kernel, ///< the kernel makes them: nobody knows them before it has run
};

/// The fixed part of every call of one operator.
///
/// Threads: any; all but the counts, the variants, the cache and the pace is constant.
class OperatorInfo {
 public:
  using RunStructured = void (*)(StructuredRun&);
  using RunKernel = void (*)(KernelRun&);

  /// For a structured operator. `outForm`: its form that writes to given outputs, for the
  /// form that makes them.
  OperatorInfo(
      const char* name,
      const char* overload,
      OperatorInfo* outForm,
      RunStructured run);
  /// For any other operator with a typed kernel.
  OperatorInfo(
      const char* name,
      const char* overload,
      OutputSource outputs,
      RunKernel run,
      bool callsKernels = false);
  /// For an operator that is called boxed. `key`: what it is registered for;
  /// `kernel`: the same layout on the CPU.
  OperatorInfo(
      c10::OperatorHandle op,
      c10::DispatchKey key,
      c10::DispatchKey kernel);
  OperatorInfo(const OperatorInfo&) = delete;
  OperatorInfo& operator=(const OperatorInfo&) = delete;

  /// Whether argument `place` is written to.
  bool writes(size_t place) const {
    return (written >> place & 1) != 0;
  }

  const c10::OperatorHandle handle;
  const char* const name; ///< never freed: records may be read long afterwards
  const c10::DispatchKeySet kernel; ///< what the CPU's kernel is called with
  const OutputSource outputs;
  const DeviceCheck devices;
  const uint64_t written; ///< a bit for each argument
  const std::optional<size_t> generator; ///< the place of that argument
  /// Whether an error in the kernel is about the data: an index out of bounds. On a
  /// GPU such an error is asynchronous.
  const bool checksData;
  const KernelChecks kernelChecks;
  /// Whether its results, or their shapes, are data of the device: a GPU's program waits
  /// for them too.
  const bool readsData;
  /// Whether it is a product of matrices, for which a GPU's libraries keep memory,
  /// whether something to add comes before the factors, and whether that may be a row.
  const bool isProduct, addsFirst, addsRows;
  const ThreadSums threadSums;
  /// Whether the kernel asks for the device of its arguments, as oneDNN does: then it needs
  /// CPU tensors, even if its iterator has the addresses.
  const bool wantsCpuTensors;
  /// Whether the kernel may resize what it writes to.
  const bool mayResize;
  const RunStructured runStructured = nullptr;
  const RunKernel runKernel = nullptr;
  /// Whether `runKernel` is not a CPU kernel but calls CPU kernels.
  const bool callsKernels = false;
  /// Of a structured operator that makes its outputs: what a device process runs.
  OperatorInfo* const outForm = nullptr;

  FallbackCount& waits;
  FallbackCount& firstCalls;
  FallbackCount& staysHere;
  std::atomic<bool> isForeign{false}; ///< the device process does not have it
  bool isOfOneCall =
      false; ///< gone after the call, so that no graph may keep it
  SupportedVariants supported;
  OutputShapeCache shapes;
  KernelPace pace;

 private:
  OperatorInfo(
      c10::OperatorHandle op,
      c10::DispatchKey key,
      c10::DispatchKey kernel,
      OutputSource outputs,
      RunStructured runStructured,
      RunKernel runKernel,
      bool callsKernels,
      OperatorInfo* outForm);
};

/// A name that is never freed.
const char* immortalName(const c10::OperatorName& name);

} // namespace at::native::openreg
