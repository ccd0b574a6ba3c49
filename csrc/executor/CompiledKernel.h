// Kernels that a compiler wrote while the program runs: those of torch.compile.
#pragma once

#include "executor/Launch.h"

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace at::native::openreg {

// docs:begin compiled-kernel
/// A function of a shared library that was compiled for this process:
///
///     extern "C" void openreg_run(const uint64_t* words);
///
/// Each word is an argument: the kernel address of a tensor's elements, or a number. It
/// runs in the current stream of its tensors' device: queued, or at once if it is small
/// and the stream is idle; with OPENREG_EXECUTOR=process the device process loads the
/// library and runs it there. An exception that it throws breaks the device, as a failed
/// assertion in a GPU's kernel does.
///
/// Kernels live as long as the process, since queued work and graphs refer to them.
///
/// Threads: any.
// docs:end compiled-kernel
class CompiledKernel {
 public:
  enum class Parameter : uint8_t { Reads, Writes, Number };

  /// A tensor, or the bits of a number.
  struct Value {
    const Tensor* tensor = nullptr;
    uint64_t number = 0;
  };

  using Function = void (*)(const uint64_t* words);

  /// Loads the library. `threads`: how many the kernel must run with, since it shares
  /// its work among just that many; 0 if any number will do. `nanoseconds`: that one
  /// thread computes for each element, beyond the time to load and to store it.
  CompiledKernel(
      std::string library,
      std::string name,
      std::vector<Parameter> parameters,
      int threads,
      double nanoseconds);

  const std::vector<Parameter>& parameters() const {
    return parameters_;
  }
  const std::string& name() const {
    return name_;
  }

  /// One value per parameter. Tensors are on one device; a 0-dim tensor of the CPU is a
  /// number that may meet any. If all are on the CPU it runs here and now.
  void launch(std::span<const Value> values) const;

  /// A number of the host that a queued kernel reads: its owner may change it.
  struct HostNumber {
    size_t place; ///< of its parameter
    size_t bytes;
    alignas(16) char content[16];
  };

  /// Runs it now, on this thread or in the device process.
  void run(
      c10::DeviceIndex device,
      std::span<const uint64_t> words,
      std::span<const HostNumber> numbers) const;

 private:
  c10::Device check(std::span<const Value> values) const;

  const std::string library_;
  const std::string name_;
  const std::vector<Parameter> parameters_;
  const int threads_;
  const double nanoseconds_;
  Function function_ = nullptr;
};

} // namespace at::native::openreg
