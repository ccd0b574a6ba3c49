// One call of an operator, whatever its types.
#pragma once

#include "executor/Alias.h"
#include "executor/Argument.h"
#include "executor/Launch.h"
#include "executor/OperatorInfo.h"

#include <c10/util/SmallVector.h>

#include <span>

namespace at::native::openreg {

// docs:begin invocation
/// A call: the operator, its arguments, the device and stream, and how much work it is.
/// It lives as long as the call; a QueuedInvocation holds what is queued.
class Invocation {
 public:
  /// Throws if tensors of these devices cannot be mixed.
  Invocation(OperatorInfo& op, ArgumentSpan arguments);

  OperatorInfo& op;
  ArgumentSpan arguments;
  c10::Device device = c10::kCPU;
  size_t bytes = 0; ///< of its tensors; the work is estimated from them
  uint64_t variant = 1; ///< see SupportedVariants
  bool hasNumbers = false; ///< of the host
  OpenRegStream stream;
  // docs:end invocation

  /// The form that the functions of Launch.h take. `outputs` are written to besides the
  /// arguments that the operator changes.
  template <class Use>
  auto withKernel(std::span<const Tensor> outputs, Use use) const {
    const auto list = [&](std::vector<MemoryAccess>& accesses) {
      listAccesses(outputs, accesses);
    };
    const bool small = isSmall();
    return use(KernelNow{
        op.name, stream, small, small ? 0 : microseconds(), list, &op.pace});
  }

  bool isSmall() const {
    return bytes <= kSmallBytes && (isPlain() || isQuick());
  }

  /// Notes that the kernel supports such calls, unless the tensors are empty: then the
  /// kernel may not have checked.
  void noteSupported() const {
    if (C10_UNLIKELY(!op.supported.has(variant)) && bytes != 0) {
      op.supported.add(variant);
    }
    if (C10_UNLIKELY(op.kernelChecks == KernelChecks::Arguments)) {
      op.shapes.add(signature(), {});
    }
  }

  /// Whether the arguments are known to be right before the kernel has seen the data,
  /// so that the call may be queued. To be called once the outputs of a structured
  /// operator exist; raises if the kernel would raise.
  bool isKnownGood(std::span<const Tensor> outputs) const;

  /// What it is like apart from its data.
  Signature signature() const;

  /// Decides what an error thrown by a kernel means. If the operator checks its data, and
  /// the error is neither about dtypes nor about memory, the device breaks as if a queued
  /// kernel had found bad data. Otherwise the error is rethrown. To be called in a catch
  /// block.
  void judgeError(const c10::Error& error) const;

 private:
  static constexpr size_t kLargeSum = 64 * 1024; // from here on sums are cut

  /// Whether the amount of work follows from the bytes alone.
  bool isPlain() const {
    return op.threadSums == ThreadSums::Never ||
        (op.threadSums <= ThreadSums::IfLarge && bytes < kLargeSum);
  }
  /// isSmall() for all other calls.
  bool isQuick() const;
  bool needsAllThreads() const;
  /// Roughly how long the kernel takes with one thread; infinite if it needs all threads.
  double microseconds() const;
  struct Factors {
    const Tensor& a;
    const Tensor& b;
  };
  Factors factors() const;
  bool isEvenProduct() const;
  /// Whether an error of its kernel is about its arguments, and not about the data.
  bool hasWrongDtype() const;
  bool asksForErrors() const;
  OpenRegStream survey();
  void listAccesses(
      std::span<const Tensor> outputs,
      std::vector<MemoryAccess>& accesses) const;
};

// docs:begin queued-invocation
/// The arguments of a kernel that runs later, in their own memory. Tensors are aliases
/// that own nothing: as on a GPU, memory freed meanwhile is only given to later work of
/// the same stream. A CPU tensor (a number or an index) is copied, since its owner may
/// change it.
// docs:end queued-invocation
class QueuedInvocation {
 public:
  QueuedInvocation(const Invocation& call, std::span<const Tensor> outputs);

  OperatorInfo& op;
  AliasFrame frame;
  ArgumentList arguments;
  c10::SmallVector<Tensor, 4> outputs; ///< aliases
};

} // namespace at::native::openreg
