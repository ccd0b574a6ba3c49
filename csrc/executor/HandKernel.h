// The launch for kernels that are written by hand.
#pragma once

#include "executor/Alias.h"
#include "executor/Layouts.h"

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

namespace at::native::openreg {

/// The tensors that a kernel works on; some may be undefined.
struct TensorUse {
  std::initializer_list<const Tensor*> reads = {};
  std::initializer_list<const Tensor*> writes = {};

  /// Refuses tensors without memory.
  size_t bytes() const;
  void list(std::vector<MemoryAccess>& accesses) const;
};

/// Their aliases: those that are read, then those that are written to.
class TensorAliases {
 public:
  TensorAliases(const TensorUse& tensors, const OpenRegStream& stream);

  operator std::span<Tensor>() {
    return {aliases_.data(), aliases_.size()};
  }

 private:
  AliasFrame frame_;
  c10::SmallVector<Tensor, 4> aliases_;
};

// docs:begin launch
/// Queues `work(aliases)`, or runs it at once if it is small and the stream is idle. The
/// aliases are CPU tensors over the memory of `tensors.reads`, then of `tensors.writes`.
/// The caller makes all checks and allocates the outputs before the launch. An error in
/// `work` breaks the device.
template <class Work>
void launch(
    const char* name,
    const OpenRegStream& stream,
    const TensorUse& tensors,
    Work work) {
  const auto list = [&](std::vector<MemoryAccess>& accesses) {
    tensors.list(accesses);
  };
  for (const Tensor* tensor : tensors.writes) {
    beginWriting(*tensor);
  }
  const size_t bytes = tensors.bytes();
  const KernelNow kernel{
      name, stream, bytes <= kSmallBytes, microsecondsFor(bytes), list};
  if (tryRun(kernel, [&] {
        TensorAliases aliases(tensors, stream);
        runQueued(1, [&] { work(aliases); });
      })) {
    return;
  }
  queue(
      kernel,
      [aliases = std::make_unique<TensorAliases>(tensors, stream),
       work = std::move(work)]() mutable { work(*aliases); });
}
// docs:end launch

} // namespace at::native::openreg
