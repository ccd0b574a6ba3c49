// Where CPU kernels are called: here, or in the device process.
#pragma once

#include "executor/OperatorInfo.h"
#include "runtime/OpenRegFunctions.h"
#include "runtime/OpenRegStream.h"

#include <ATen/core/stack.h>

#include <span>
#include <string>

namespace at::native::openreg {

/// Whether kernels run in device processes (OPENREG_EXECUTOR=process).
inline bool kernelsRunElsewhere() {
  return c10::openreg::runs_in_device_processes();
}

/// Calls an operator's CPU kernel in the process of the device that the memory of its
/// tensors belongs to, and returns when it has run there. Arguments and results are
/// those that the kernel itself would have: CPU tensors at kernel addresses. `outputs`:
/// the stream from whose memory unplanned results come, if any. Returns false, and counts
/// it, if the call cannot cross: then it was not made.
///
/// Threads: any; each has channels to the processes of its own.
bool callRemotely(
    OperatorInfo& op,
    const c10::openreg::OpenRegStream* outputs,
    torch::jit::Stack& stack);

/// An argument of a compiled kernel: a number, or an address of the device's memory
/// unless there is content, a number of the host to point to.
struct RemoteWord {
  uint64_t word;
  bool isAddress;
  std::span<const char> content;
};

/// Runs a compiled kernel in the process of its device, which loads the library, and
/// returns when it has run. Throws what it threw.
void runCompiledRemotely(
    c10::DeviceIndex device,
    const std::string& library,
    const std::string& name,
    std::span<const RemoteWord> words);

} // namespace at::native::openreg
